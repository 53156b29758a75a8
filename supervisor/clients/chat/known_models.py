"""The models that `/model` offers, as `swarm models list` knows them."""

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import msgspec

from swarm.mailbox.base.bounded_formats import decode_json_as
from swarm.mailbox.base.errors import SwarmError

_LIMIT_S = 20.0
_MOST, _MOST_BYTES = 500, 1 << 20


class _Model(msgspec.Struct, frozen=True):
    """A line of `swarm models list --json`."""

    name: str
    provider: str = ""
    about: str = ""
    input_usd_per_million: float | None = None
    output_usd_per_million: float | None = None


def list_known_models(environment: Mapping[str, str], cwd: Path) -> tuple[tuple[str, str], ...]:
    """Names as `/model` takes them, and what each is. Raises SwarmError, OSError."""
    words = ("swarm.supervisor.clients.cli.entry", "models", "list", "--json")
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-m", *words],
            env=dict(environment),
            cwd=cwd,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=_LIMIT_S,
            check=False,
            start_new_session=True,
        )
    except subprocess.TimeoutExpired as error:
        raise SwarmError("the models could not be listed in time") from error
    return read_known_models(done.stdout[:_MOST_BYTES])


def read_known_models(lines: bytes) -> tuple[tuple[str, str], ...]:
    """From the command's lines; a line that is no model is left out."""
    found: dict[str, str] = {}
    for line in lines.splitlines()[:_MOST]:
        try:
            one = decode_json_as(line, _Model)
        except (msgspec.DecodeError, UnicodeError):
            continue
        name = f"{one.provider}:{one.name}" if one.provider else one.name
        if name.isprintable() and " " not in name:
            found.setdefault(name, f"{one.about}{_price(one)}")
    return tuple(found.items())


def _price(one: _Model) -> str:
    if not (one.input_usd_per_million and one.output_usd_per_million):
        return ""
    return f" (${one.input_usd_per_million:g} in, ${one.output_usd_per_million:g} out)"
