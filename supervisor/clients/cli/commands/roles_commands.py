"""`swarm roles list|explain`: which roles there are, and what a role would do to a run here."""

from collections.abc import Sequence

import click
import msgspec

from swarm.mailbox.protocol.settings import ToolChoice
from swarm.mailbox.protocol.values.limits import (
    AskForApproval,
    Limits,
    ProfilePolicy,
    SandboxPolicy,
)
from swarm.roles.config.layers.config_loader import LoadedConfig
from swarm.roles.rights.narrow import narrow_limits
from swarm.roles.rights.role import Role, with_run_settings
from swarm.roles.role_loader import Roles, find_role, load_roles

from ....base.safe_text import clean_line
from ..base.lazy_commands import ColorCommand
from ..base.printing import print_columns, print_json
from ..run_setup.mcp_settings import check_role_servers
from ..run_setup.run_settings import find_cwd, load_config_here
from ..run_setup.sandbox_choice import resolve_run_sandbox


@click.group("roles")
def roles() -> None:
    """List the roles of agents, and explain one.

    \b
    Example:
      swarm roles list
    """


def _load() -> tuple[Roles, LoadedConfig]:
    loaded = load_config_here()
    known = load_roles(loaded.layers, loaded.requirements)
    return check_role_servers(known, loaded.config), loaded


def _say(warnings: Sequence[str]) -> None:
    for warning in warnings:
        click.echo(f"swarm: warning: {clean_line(warning, limit=400)}", err=True)


@roles.command("list", cls=ColorCommand)
@click.option("--json", "as_json", is_flag=True, help="One JSON object a role.")
def list_roles(*, as_json: bool) -> None:
    """All roles: built in, declared, and found in agents/ folders.

    \b
    Example:
      swarm roles list
    """
    known, loaded = _load()
    _say((*loaded.warnings, *(why for role in known.known.values() for why in role.warnings)))
    if as_json:
        for name in sorted(known.known):
            print_json({"name": name, "usable": True, **_fields(known.known[name])})
        for name, why in sorted(known.broken.items()):
            print_json({"name": name, "usable": False, "why": why})
        return
    rows = [
        (name, role.sandbox_mode or "-", role.model or "-", role.source, role.description)
        for name, role in sorted(known.known.items())
    ]
    rows += [(name, "-", "-", "unusable", why) for name, why in sorted(known.broken.items())]
    print_columns(("ROLE", "SANDBOX", "MODEL", "FROM", "WHAT IT IS FOR"), rows)


def _fields(role: Role) -> dict[str, object]:
    return {
        "description": role.description,
        "source": role.source,
        "model": role.model,
        "effort": role.effort,
        "sandbox_mode": role.sandbox_mode,
        "approval": role.approval,
        "nickname_candidates": role.nickname_candidates,
        "tools": msgspec.to_builtins(role.tools),
        "prompt": role.prompt,
        "sampling": msgspec.to_builtins(role.sampling),
        "warnings": role.warnings,
    }


@roles.command("explain", cls=ColorCommand)
@click.argument("name")
@click.option("--json", "as_json", is_flag=True, help="As one JSON object.")
def explain_role(name: str, *, as_json: bool) -> None:
    """What a role says and what it may do in a run that is started here.

    \b
    Example:
      swarm roles explain explorer
    """
    known, loaded = _load()
    config = loaded.config
    role = with_run_settings(find_role(known, name), config)
    _say(role.warnings)
    left = config.tool_choice.narrowed(role.tools)
    role = msgspec.structs.replace(role, tools=left)
    sandbox = resolve_run_sandbox(loaded, cwd=str(find_cwd(None))).policy
    parent = Limits(sandbox=sandbox, approval=config.approval)
    limits = narrow_limits(parent, role)
    if as_json:
        print_json({
            "name": role.name, **_fields(role),
            "developer_instructions": role.developer_instructions,
            "limits": msgspec.to_builtins(limits),
        })  # fmt: skip
        return
    for line in _explained(role, parent, limits):
        click.echo(line)


def _explained(role: Role, parent: Limits, limits: Limits) -> list[str]:
    lines = [f"{role.name} ({role.source})", f"  {role.description}", ""]
    lines.append(f"model     {role.model or 'as the run'}")
    lines.append(f"effort    {role.effort or 'as the run'}")
    lines.append(f"sandbox   {_narrowed(_word(parent.sandbox), _word(limits.sandbox))}")
    lines.append(f"approval  {_narrowed(parent.approval, limits.approval)}")
    lines.append(f"tools     {_tools(role.tools)}")
    if role.prompt:
        lines.append(f"prompt    {role.prompt}")
    sampling = msgspec.structs.asdict(role.sampling).items()
    if given := [f"{key} {one:g}" for key, one in sampling if one is not None]:
        lines.append(f"sampling  {', '.join(given)}")
    if role.nickname_candidates:
        lines.append(f"names     {', '.join(role.nickname_candidates)}")
    if role.developer_instructions:
        lines += ["", role.developer_instructions]
    return lines


def _tools(choice: ToolChoice) -> str:
    if choice.only is None:
        gone = f", but not {', '.join(choice.exclude)}" if choice.exclude else ""
        return f"those that fit the model{gone}"
    return ", ".join(name for name in choice.only if choice.allows(name)) or "none"


def _word(policy: SandboxPolicy) -> str:
    name = str(policy.__struct_config__.tag)
    if isinstance(policy, ProfilePolicy):
        writes = any(rule.access == "write" for rule in policy.rules)
        name = f"{name} {policy.name}{'' if writes else ', reading only'}"
    return f"{name}, with network" if getattr(policy, "network_access", False) else name


def _narrowed(parent: str | AskForApproval, own: str | AskForApproval) -> str:
    return own if own == parent else f"{own} (narrowed from {parent})"
