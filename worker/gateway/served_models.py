"""What a server says of the models that it serves: their names and context windows.

Read are the lists of OpenAI's form (`/models`, with the window as vLLM, llama.cpp, OpenRouter and
others name it), Ollama's (`/api/tags`, `/api/ps`, `/api/show`), LM Studio's (`/api/v0/models`) and
llama.cpp's `/props`. A server that does not answer, or that says nothing of a window, is no error.
"""

import difflib
import re
from collections.abc import Mapping, Sequence

import msgspec
import trio

from swarm.mailbox.base.bounded_formats import depth_checked
from swarm.mailbox.protocol.spec import ProviderSpec
from swarm.mailbox.protocol.values.base import Value
from swarm.roles.base.local_servers import SIGNS, is_shown

from .http.http_client import HttpClient, open_http
from .request_headers import Unsigned, own_headers

_MOST_SHOWN = 8
_NUM_CTX = re.compile(r"(?m)^num_ctx\s+([0-9]{1,9})\s*$")


class ServedModel(Value):
    """A model of a server. The window is None if the server does not say it.

    `window_tokens` is what the server gives a request; `most_tokens` is what the model could take
    in a server that is set so.
    """

    name: str
    window_tokens: int | None = None
    most_tokens: int | None = None

    def window_below(self, assumed_tokens: int) -> int:
        """The window to count with, where `assumed_tokens` would be taken without knowledge."""
        if self.window_tokens is not None:
            return self.window_tokens
        return min(assumed_tokens, self.most_tokens or assumed_tokens)


_NONE = msgspec.Raw(b"null")


class _Entry(msgspec.Struct):
    """One entry of a list, in the words of all servers. Numbers are decoded one by one, so that an
    odd one does not lose the list.
    """

    id: str | None = None
    name: str | None = None
    type: str | None = None
    n_ctx: msgspec.Raw = _NONE  # llama.cpp; its `meta` holds it too
    meta: msgspec.Raw = _NONE
    max_model_len: msgspec.Raw = _NONE  # vLLM, SGLang
    context_length: msgspec.Raw = _NONE  # OpenRouter, Together; Ollama's list of loaded models
    context_window: msgspec.Raw = _NONE  # Groq
    loaded_context_length: msgspec.Raw = _NONE  # LM Studio
    max_context_length: msgspec.Raw = _NONE  # LM Studio, Mistral

    def served(self) -> ServedModel:
        meta = _fields(self.meta)
        windows = (
            *(self.n_ctx, meta.get("n_ctx", _NONE), self.loaded_context_length),
            *(self.max_model_len, self.context_length, self.context_window),
        )
        limits = (self.max_context_length, meta.get("n_ctx_train", _NONE))
        return ServedModel(
            name=self.id or self.name or "",
            window_tokens=next(filter(None, map(_number, windows)), None),
            most_tokens=next(filter(None, map(_number, limits)), None),
        )


class _List(msgspec.Struct):
    data: tuple[_Entry, ...] | None = None
    models: tuple[_Entry, ...] | None = None


class _Props(msgspec.Struct):
    default_generation_settings: msgspec.Raw = _NONE


class _Shown(msgspec.Struct):
    parameters: str = ""
    model_info: dict[str, msgspec.Raw] = {}


_decode_list = depth_checked(msgspec.json.Decoder(_List).decode)
_decode_props = depth_checked(msgspec.json.Decoder(_Props).decode)
_decode_shown = depth_checked(msgspec.json.Decoder(_Shown).decode)
_decode_fields = depth_checked(msgspec.json.Decoder(dict[str, msgspec.Raw]).decode)
_decode_number = depth_checked(msgspec.json.Decoder(int).decode)


class ModelListClient:
    """Asks one server for its lists of models.

    Args:
        limit_s: For all requests of one call together.
    """

    def __init__(self, provider: ProviderSpec, keys: Mapping[str, str], *, limit_s: float) -> None:
        self._provider, self._limit_s = provider, limit_s
        self._keys = keys
        self._root = provider.base_url.rstrip("/").removesuffix("/v1")

    async def list_models(self) -> list[ServedModel]:
        """The text models that the server offers; [] if it does not answer in time.

        The names of Ollama's models come newest first, and without windows: `find_window` asks for
        the window of one model.
        """
        url = f"{self._provider.base_url.rstrip('/')}/models"
        if self._provider.id == "ollama":  # its own list has the models on disk
            url = f"{self._root}/api/tags"
        async with open_http(self._provider.base_url) as client:
            found = _read_list(await self._ask(client, url))
        names = {model.name: model for model in found}
        return [model for name, model in names.items() if name and "embed" not in name.lower()]

    async def is_itself(self) -> bool:
        """True if this known server of the machine is the one that answers there."""
        async with open_http(self._provider.base_url) as client:
            for path, shows in SIGNS[self._provider.id]:
                text = await self._get(client, path)
                if text is not None and is_shown(text.encode(), shows):
                    return True
        return False

    async def find_window(self, model: ServedModel) -> ServedModel:
        """The model with its window, if a further list of the server says it."""
        if model.window_tokens is not None:
            return model
        with trio.move_on_after(self._limit_s):
            async with open_http(self._provider.base_url) as client:
                match self._provider.id:
                    case "ollama":
                        return await self._ask_ollama(client, model)
                    case "lmstudio":
                        text = await self._get(client, "/api/v0/models")
                        return next(
                            (one for one in _read_list(text) if one.name == model.name), model
                        )
                    case "llamacpp":
                        text = await self._get(client, "/props")
                        return _with_props(model, text)
                    case _:
                        return model
        return model

    async def _ask_ollama(self, client: HttpClient, model: ServedModel) -> ServedModel:
        """A loaded model's window, else the one that its file sets, else the model's own limit."""
        for loaded in _read_list(await self._get(client, "/api/ps")):
            if loaded.name == model.name and loaded.window_tokens is not None:
                return loaded
        body = msgspec.json.encode({"model": model.name})
        text = await self._ask(client, f"{self._root}/api/show", body)
        try:
            shown = _decode_shown(text or "{}")
        except msgspec.DecodeError:
            return model
        if found := _NUM_CTX.search(shown.parameters):
            return msgspec.structs.replace(model, window_tokens=int(found[1]))
        lengths = (raw for key, raw in shown.model_info.items() if key.endswith(".context_length"))
        return msgspec.structs.replace(model, most_tokens=_number(next(lengths, _NONE)))

    async def _get(self, client: HttpClient, path: str) -> str | None:
        return await self._ask(client, self._root + path)

    async def _ask(self, client: HttpClient, url: str, body: bytes = b"") -> str | None:
        try:
            unsigned = Unsigned("POST" if body else "GET", url, body)
            headers = own_headers(self._provider, self._keys, unsigned)
        except ValueError:
            return None  # no address
        return await client.get_text(url, headers, limit_s=self._limit_s, body=body)


def _read_list(text: str | None) -> list[ServedModel]:
    try:
        listed = _decode_list(text or "{}")
    except msgspec.DecodeError:
        return []
    entries = listed.data or listed.models or ()
    return [entry.served() for entry in entries if entry.type != "embeddings"]


def _with_props(model: ServedModel, text: str | None) -> ServedModel:
    try:
        settings = _decode_props(text or "{}").default_generation_settings
    except msgspec.DecodeError:
        return model
    window = _number(_fields(settings).get("n_ctx", _NONE))
    return msgspec.structs.replace(model, window_tokens=window) if window else model


def _fields(raw: msgspec.Raw) -> dict[str, msgspec.Raw]:
    try:
        return _decode_fields(raw)
    except msgspec.DecodeError:
        return {}


def _number(raw: msgspec.Raw) -> int | None:
    """A number of tokens; None for anything else."""
    try:
        number = _decode_number(raw)
    except msgspec.DecodeError:
        return None
    return number if 0 < number < 1_000_000_000 else None


def find_served(slug: str, models: Sequence[ServedModel]) -> ServedModel | None:
    """The model of this name; Ollama leaves out the tag `latest`."""
    names = {model.name: model for model in models}
    return names.get(slug) or names.get(f"{slug}:latest")


def describe_models(models: Sequence[ServedModel], wanted: str) -> str:
    """The names, for a text that says that `wanted` is not among them; the nearest one is named."""
    names = [model.name for model in models]
    shown = ", ".join(names[:_MOST_SHOWN])
    if len(names) > _MOST_SHOWN:
        shown = f"{shown} and {len(names) - _MOST_SHOWN} more"
    near = difflib.get_close_matches(wanted, names, n=1, cutoff=0.5)
    return f"{shown}; did you mean {near[0]}?" if near else shown
