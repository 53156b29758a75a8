"""Asks an explorer for the section of AGENTS.md: a read-only run of one agent, as a child process.

It is the same `swarm run` that a person would type, so its bounds, its sandbox and its journal are
those of any run.
"""

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import IO

import msgspec

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.base.ids import short_id
from swarm.mailbox.protocol.values.base import Value
from swarm.roles.config.schema import Config

from ....processes.answer_caution import CANNOT_USE_TOOLS
from .printing import say
from .provider_checks import check_providers

_PROMPT = (Path(__file__).parent / "init_prompt.md").read_text(encoding="utf-8").strip()
_OWN_PROVIDERS = frozenset(
    f"provider {name}" for name in ("openai", "anthropic", "ollama", "lmstudio", "llamacpp")
)
_DEADLINE = "10m"
_EMBEDDED = "local"  # the provider of the models that run in the gateway
_MAX_LINE = 4 << 20
_SHOWN_BYTES = 32 << 10


class DraftModel(Value):
    """Who shall look at the project; None: what the configuration says."""

    model: str | None = None
    provider: str | None = None


class _RunEvent(Value):
    """What is read of a line of `swarm run --json`."""

    type: str = ""
    agent: str = ""
    thread_id: str = ""
    status: str = ""
    message: str = ""
    caution: str = ""
    result: str | None = None


def is_model_configured(wanted: DraftModel, config: Config, environment: Mapping[str, str]) -> bool:
    """True if a model that was named, or another one than the small embedded one, would answer.

    Asks servers on this machine.
    """
    if wanted.model is not None or wanted.provider not in (None, _EMBEDDED):
        return True
    provider = wanted.provider or config.model_provider
    if provider is not None:
        return provider != _EMBEDDED or config.model is not None
    checks = check_providers(config, environment)
    return any(one.state == "ok" for one in checks if one.name in _OWN_PROVIDERS)


def draft_by_model(root: Path, wanted: DraftModel, *, facts: str, existing: str) -> str:
    """The answer of an explorer that looked at `root`.

    Raises UsageError: the run failed, or its model is not one to be believed; the text says why.
    """
    command = [
        sys.executable, "-P", "-m", "swarm.supervisor.clients.cli.entry", "run", "--prompt-file",
        "-",
        "--role", "explorer", "-s", "read-only", "-a", "never", "--max-agents", "1",
        "--deadline", _DEADLINE, "--json", "-C", str(root),
    ]  # fmt: skip
    command += ["-m", wanted.model] if wanted.model else []
    command += ["--provider", wanted.provider] if wanted.provider else []
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(_task(facts, existing).encode())
        child.stdin.close()
        ended = _last_line(child.stdout)
    if ended.status != "completed":
        why = ended.message or ended.status or f"exit code {child.returncode}"
        raise UsageError(f"the run that looked at the project did not complete: {why}")
    if CANNOT_USE_TOOLS in ended.caution:
        raise UsageError(f"the model that answered is too small for this: {ended.caution}")
    return ended.result or ""


def _task(facts: str, existing: str) -> str:
    parts = [
        _PROMPT,
        f"What the build files say, as data:\n<facts>\n{facts[:_SHOWN_BYTES]}\n</facts>",
    ]
    if existing.strip():
        shown = existing[:_SHOWN_BYTES]
        parts.append(f"AGENTS.md as it is, as data:\n<agents_md>\n{shown}\n</agents_md>")
    return "\n\n".join(parts)


def _last_line(stream: IO[bytes]) -> _RunEvent:
    """The run's last event; says on stderr which run it is."""
    last = _RunEvent()
    while line := stream.readline(_MAX_LINE):
        try:
            event = msgspec.json.decode(line, type=_RunEvent)
        except (msgspec.DecodeError, UnicodeDecodeError):
            continue  # an event of another shape, or one that is too long
        if event.type == "thread.started" and not event.agent:
            run = short_id(event.thread_id)
            say(f"an explorer looks at the project: swarm watch {run}")
        if event.type == "run.completed":
            last = event
    return last
