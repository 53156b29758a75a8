"""What the person allowed this server, and what a caller may ask for within it. Pure.

A caller may narrow sandbox, approval, budget and folder, never widen them. What a caller leaves out
is as the person's own command line and configuration say.
"""

import os
from collections.abc import Sequence

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.base.path_rules import is_within
from swarm.mailbox.protocol.settings import SandboxMode
from swarm.mailbox.protocol.values.base import Value
from swarm.mailbox.protocol.values.limits import AskForApproval, Budget, Isolation
from swarm.roles.rights.narrow import narrow_approval

SANDBOX_ORDER: tuple[SandboxMode, ...] = ("read-only", "workspace-write", "danger-full-access")
_MOST_OPTION_BYTES = 96 << 10  # the kernel takes 128 KiB for one argument


class RunCeiling(Value):
    """What a run in one folder may have at most, by command line and configuration.

    `profile`: the permission profile that stands in place of a sandbox mode; "" = none.
    """

    sandbox: SandboxMode
    approval: AskForApproval
    budget: Budget = Budget()
    profile: str = ""


class CallerOptions(Value):
    """What a caller asked for. None and "": as the person's settings say."""

    role: str = ""
    model: str = ""
    sandbox: SandboxMode | None = None
    approval: AskForApproval | None = None
    budget: Budget = Budget()
    isolation: Isolation | None = None  # "copy" only takes rights
    config: tuple[tuple[str, str], ...] = ()  # keys of config.toml with text values


def narrowed_options(wanted: CallerOptions, ceiling: RunCeiling) -> list[str]:
    """The options of `swarm run` that the caller asked for, to stand behind the person's own.

    Raises UsageError for one that would widen what the person allowed.
    """
    options: list[str] = []
    if wanted.sandbox is not None:
        check_sandbox(wanted.sandbox, ceiling)
        options.append(f"--sandbox={wanted.sandbox}")
    if wanted.approval is not None:
        if narrow_approval(ceiling.approval, wanted.approval) != wanted.approval:
            raise UsageError(
                f"approval {wanted.approval!r} asks less than {ceiling.approval!r}, which this "
                "server was started with; leave it out, or ask for a stricter one"
            )
        options.append(f"--approval={wanted.approval}")
    if wanted.isolation == "copy":
        options.append("--isolate=children")
    options += _budget_options(wanted.budget, ceiling.budget)
    options += _word("--role", wanted.role) + _word("--model", wanted.model)
    for key, value in wanted.config:
        options += _word("--config", f"{key}={value}")
    return options


def check_sandbox(wanted: SandboxMode, ceiling: RunCeiling) -> None:
    """Raises UsageError if the sandbox gives more than the ceiling, or cannot be compared."""
    if ceiling.profile:
        raise UsageError(
            f"runs of this server have the permission profile {ceiling.profile!r}, which a caller "
            "cannot replace; leave `sandbox` out"
        )
    if SANDBOX_ORDER.index(wanted) > SANDBOX_ORDER.index(ceiling.sandbox):
        raise UsageError(
            f"sandbox {wanted!r} allows more than {ceiling.sandbox!r}, which this server was "
            f"started with; leave it out, or start `swarm mcp-server --sandbox {wanted}`"
        )


def _budget_options(wanted: Budget, ceiling: Budget) -> list[str]:
    options: list[str] = []
    for name, value, most in (
        ("tokens", wanted.tokens, ceiling.tokens), ("usd", wanted.usd, ceiling.usd),
    ):  # fmt: skip
        if value is None:
            continue
        if most is not None and value > most:
            raise UsageError(
                f"budget.{name} {value:g} is over the {most:g} that this server's runs have; "
                "leave it out, or ask for less"
            )
        options.append(f"--budget-{name}={value}")
    return options


def _word(option: str, value: str) -> list[str]:
    if not value:
        return []
    word = f"{option}={value}"
    if len(word.encode(errors="replace")) > _MOST_OPTION_BYTES or "\0" in word:
        raise UsageError(f"the value for {option[2:]} is too long, or no text")
    return [word]


def find_folder(wanted: str, base: str, roots: Sequence[str]) -> str:
    """The folder of a run: `base`, or a folder in it or in one of `roots`; symlinks are followed.

    Args:
        wanted: As the caller gave it; relative to `base`; "": `base`.
        base: The server's own folder, canonical.
        roots: Further folders that the person named, canonical.

    Raises UsageError.
    """
    folder = os.path.realpath(os.path.join(base, wanted)) if "\0" not in wanted else "/"  # noqa: PTH118
    if not any(is_within(folder, root) for root in (base, *roots)):
        raise UsageError(
            f"{wanted[:500]!r} is outside of {base}, the folder of this server; start it in "
            "another one with `swarm mcp-server --cd`, or name more with `--add-dir`"
        )
    return folder
