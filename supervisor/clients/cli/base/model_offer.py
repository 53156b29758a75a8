"""Offers the capable embedded model where nothing else could answer: once, on a terminal.

The small one (98 MB) that is fetched unasked cannot use tools. Whatever the answer is, it is not
asked again; the run goes on with the model that is here.
"""

import importlib.util
import os
from collections.abc import Callable, Mapping
from pathlib import Path

import click

from swarm.mailbox.base.errors import SwarmError
from swarm.roles.config.schema import Config

from ....runs.paths import find_user_paths, make_private_folder
from .confirmation import can_ask
from .models_process import ModelLine, query_models
from .printing import say
from .provider_checks import check_providers
from .pull_progress import show_progress

CAPABLE = "qwen2.5-coder-1.5b"
_MARK = "capable_model_offered"  # in the state folder: the question was answered
_SLOW_MBIT, _FAST_MBIT = 20, 100


def offer_capable_model(load: Callable[[], Config], environment: Mapping[str, str]) -> None:
    """Ask whether to fetch it, if nobody was asked yet, and no other model is here.

    `load` reads the configuration; it is called only if that matters.
    """
    mark = find_user_paths(dict(environment)).state / _MARK
    if mark.exists() or not can_ask() or importlib.util.find_spec("xllamacpp") is None:
        return
    try:
        config = load()
        if config.model or config.model_provider or _has_provider(config, environment):
            return
        known = {line.name: line for line in query_models("list")}
        capable = known.get(CAPABLE)
        if capable is None or any(one.here and one.calls_tools for one in known.values()):
            return
        is_wanted = click.confirm(describe_offer(capable), default=False, err=True)
        _note_answer(mark)
        if is_wanted:
            show_progress(query_models("pull", CAPABLE), f"pulling {CAPABLE}", as_json=False)
        else:
            say(f"`swarm models pull {CAPABLE}` fetches it later")
    except (SwarmError, OSError) as error:
        say(f"warning: {error}; the small model answers")


def _has_provider(config: Config, environment: Mapping[str, str]) -> bool:
    """True if one of them has a key, or is a server that answers."""
    return any(check.state == "ok" for check in check_providers(config, environment))


def describe_offer(line: ModelLine) -> str:
    """What is offered, how large it is, and how long it takes."""
    slow, fast = (_minutes(line.size_bytes, mbit) for mbit in (_SLOW_MBIT, _FAST_MBIT))
    return (
        "No key is set, and no model server answers on this machine. Without one, a small model "
        "answers that cannot use tools.\n"
        f"{line.name} can use them and write simple code; it is often wrong. It is "
        f"{line.size_bytes / 1e9:.1f} GB ({line.licence}): {fast} at {_FAST_MBIT} Mbit/s, {slow} "
        f"at {_SLOW_MBIT}. This is asked once. Fetch it now?"
    )


def _minutes(size_bytes: int, mbit: int) -> str:
    return f"about {max(1, round(size_bytes * 8 / mbit / 60e6))} min"


def _note_answer(mark: Path) -> None:
    make_private_folder(mark.parent)
    os.close(os.open(mark, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))
