"""How one knows the model servers of this machine: by what they alone answer, not by a port. Pure.

Sources: github.com/ollama/ollama/blob/main/docs/api.md; lmstudio.ai/docs/developer/rest;
github.com/ggml-org/llama.cpp/blob/master/tools/server/README.md
"""

from collections.abc import Callable, Mapping
from typing import cast

import msgspec

from swarm.mailbox.base.bounded_formats import decode_json_as

Shows = Callable[[Mapping[str, object]], bool]  # of an answer that is a JSON object
Sign = tuple[str, Shows]  # a path below the server's root, and what its answer must be


def _entries(answer: Mapping[str, object], key: str) -> list[Mapping[str, object]] | None:
    found = answer.get(key)
    if not isinstance(found, list):
        return None
    listed = cast("list[object]", found)
    return [cast("Mapping[str, object]", one) for one in listed if isinstance(one, dict)]


def _lists_ollama_models(answer: Mapping[str, object]) -> bool:
    models = _entries(answer, "models")
    return models is not None and all("name" in one for one in models)


def _lists_lmstudio_models(answer: Mapping[str, object]) -> bool:
    models = _entries(answer, "data")
    own = {"state", "arch", "publisher", "max_context_length"}
    return bool(models) and all(own & one.keys() for one in models or ())


def _knows_no_such_path(answer: Mapping[str, object]) -> bool:
    return str(answer.get("error", "")).startswith("Unexpected endpoint or method.")


def _lists_llamacpp_models(answer: Mapping[str, object]) -> bool:
    return any(one.get("owned_by") == "llamacpp" for one in _entries(answer, "data") or ())


def _has_llamacpp_settings(answer: Mapping[str, object]) -> bool:
    return "default_generation_settings" in answer


# Any one of a server's signs is enough.
SIGNS: dict[str, tuple[Sign, ...]] = {
    "ollama": (("/api/tags", _lists_ollama_models),),
    "lmstudio": (
        ("/api/v0/models", _lists_lmstudio_models),
        ("/no-such-path", _knows_no_such_path),  # one without any model
    ),
    "llamacpp": (("/v1/models", _lists_llamacpp_models), ("/props", _has_llamacpp_settings)),
}


def is_shown(body: bytes, shows: Shows) -> bool:
    """True if the answer is what this server alone says."""
    try:
        return shows(decode_json_as(body, dict[str, object]))
    except msgspec.DecodeError:
        return False
