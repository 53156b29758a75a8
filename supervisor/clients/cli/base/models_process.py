"""Runs the gateway's code in a separate process for `swarm models …` and reads its JSON lines."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile

import msgspec

from swarm.mailbox.base.errors import SwarmError

from ....runs.paths import find_user_paths

_MAX_STDERR_BYTES = 64 * 1024
_CLI = ("-P", "-m", "swarm.worker.gateway.models_cli")
_PROBE = ("-P", "-m", "swarm.worker.probe.probe_process")


class ModelsProcessFailed(SwarmError):
    """The process failed; carries its message and exit code."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.exit_code = code


class ModelLine(msgspec.Struct):
    """One line of the process's output; `type` determines which fields are set."""

    type: str
    message: str = ""
    name: str = ""
    provider: str = ""
    default: bool = False
    about: str = ""
    context_window: int = 0
    max_output_tokens: int | None = None
    input_usd_per_million: float | None = None
    cached_usd_per_million: float | None = None
    cache_write_usd_per_million: float | None = None
    output_usd_per_million: float | None = None
    calls_tools: bool = False
    parallel_tool_calls: bool = False
    reasoning: bool = False
    image_input: bool = False
    source: str = ""
    size_bytes: int = 0
    here: bool = False
    licence: str = ""
    have: int = 0
    total: int = 0
    path: str = ""
    fetched: bool = False
    # of a probe
    why: str = ""
    model: str = ""
    known: bool = False
    test: str = ""
    works: bool = False
    answered: bool = False
    detail: str = ""
    seconds: float = 0.0
    first_byte_s: float | None = None
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    reasoned: bool = False
    calls_worked: int = 0
    calls: int = 0
    window_known: bool = False
    input_tokens_per_s: float | None = None
    output_tokens_per_s: float | None = None
    memory_bytes: int | None = None
    models_toml: str = ""
    entry: dict[str, bool | int | str | dict[str, bool | int | str | list[str]]] = {}


_decode = msgspec.json.Decoder(ModelLine).decode


def catalogue_files() -> list[str]:
    """The models.toml files that exist, the system's first."""
    paths = (Path("/etc/swarm/models.toml"), own_catalogue_file())
    return [str(path) for path in paths if path.is_file()]


def own_catalogue_file() -> Path:
    """The person's own models.toml, present or not."""
    return find_user_paths(dict(os.environ)).config / "models.toml"


def query_models(verb: str, *names: str) -> Iterator[ModelLine]:
    """Query the process about model files. Raises ModelsProcessFailed at its end if it failed."""
    folder = str(find_user_paths(dict(os.environ)).models)
    return stream_models_process((verb, folder, *names, *catalogue_files()))


def stream_probe(order: bytes, environment: dict[str, str]) -> Iterator[ModelLine]:
    """The lines of a probe of this encoded order. Raises ModelsProcessFailed at its end."""
    return stream_models_process((), order, environment, command=_PROBE)


def stream_models_process(
    arguments: tuple[str, ...],
    stdin: bytes = b"",
    environment: dict[str, str] | None = None,
    *,
    command: tuple[str, ...] = _CLI,
) -> Iterator[ModelLine]:
    """The process's output line by line. Raises ModelsProcessFailed at its end if it failed.

    Args:
        arguments: Its arguments.
        command: Python's arguments, which name the program.
        stdin: Written to its stdin.
        environment: Its environment; None = that of this process.
    """
    words = [sys.executable, *command, *arguments]
    failure = ""
    pipe = subprocess.PIPE
    with (
        TemporaryFile() as noise,
        subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=noise, env=environment) as child,
    ):
        assert child.stdin is not None
        assert child.stdout is not None
        try:
            with suppress(BrokenPipeError):
                child.stdin.write(stdin)
                child.stdin.close()
            for raw in child.stdout:
                try:
                    line = _decode(raw)
                except msgspec.DecodeError:
                    continue
                if line.type == "error":
                    failure = line.message
                else:
                    yield line
            child.wait()
        finally:
            child.kill()
        if not failure and child.returncode != 0:
            noise.seek(0)
            sys.stderr.write(noise.read(_MAX_STDERR_BYTES).decode("utf-8", "replace"))
    if failure or child.returncode != 0:
        code = child.returncode or 1
        raise ModelsProcessFailed(failure or f"it ended with exit code {code}", max(code, 1))
