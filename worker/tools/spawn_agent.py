"""spawn_agent: start a child agent for a task."""

from collections.abc import Iterable
from functools import partial
from typing import Annotated, Literal

import msgspec

from swarm.mailbox.base.ids import check_segment
from swarm.mailbox.contents.team_tool_results import spawn_result
from swarm.mailbox.protocol.items import AnyCall
from swarm.mailbox.protocol.requests import Spawn, Spawned
from swarm.mailbox.protocol.spec import RoleCard

from .interface.function_tool import HIDDEN, decode_arguments, described, encode_schema
from .interface.team_client import TeamInvocation, TeamTool, as_json, require_text
from .interface.tool_interface import Invocation, ToolFailed, ToolResult

SPAWN_DEADLINE_S = 120.0
ANSWER_MARGIN_S = 15.0  # the supervisor's own deadline comes first
_ROLE_CHARS = 1_000  # of one role's description
_FORK_RULE = 'fork_turns must be `none`, `all`, or a positive integer string such as "3"'
_MIN_SHOWN_WAIT_S = 1.0


class SpawnArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments as the model writes them."""

    task_name: Annotated[str, described("a-z, 0-9 and _.")]
    message: Annotated[str, described("The task, with all it needs to know.")]
    agent_type: str | None = None  # described by `roles_text`
    fork_turns: Annotated[
        str | int | None,
        described(
            "What it gets of this conversation: `none` suits a task that is fully told, `all` "
            "(default) one that builds on it; or a number of latest turns."
        ),
    ] = None
    model: Annotated[str | None, described("Default: yours.")] = None
    reasoning_effort: Annotated[str | None, described("Default: yours.")] = None
    claims: Annotated[tuple[str, ...] | None, described("Files that it owns.")] = None
    isolation: Annotated[
        Literal["shared", "copy"] | None,
        described(
            "`copy`: it writes into a copy of the project, whose changes are merged later; for "
            "agents that may write the same files side by side."
        ),
    ] = None
    host: str | None = None  # described by `_hosts_text`
    resources: Annotated[
        dict[str, Annotated[float, msgspec.Meta(ge=0)]] | None,
        described('What it takes of such a machine, if it needs more than a slot: {"GPU": 1}.'),
    ] = None
    # of the older interface
    fork_context: Annotated[msgspec.Raw | msgspec.UnsetType, HIDDEN] = msgspec.UNSET


class SpawnAgentTool(TeamTool):
    """The spawn_agent tool."""

    name = "spawn_agent"
    arguments = SpawnArguments

    def parameters(self) -> bytes:
        spec = self._team.spec
        without: tuple[str, ...] = () if spec.team.offers_copies else ("isolation",)
        notes = {"agent_type": roles_text(spec.team.roles)}
        if spec.team.hosts:
            notes["host"] = _hosts_text(spec.team.hosts)
        else:
            without += ("host", "resources")
        return encode_schema(self.arguments, without=without, notes=notes)

    async def prepare(self, call: AnyCall) -> Invocation:
        self._team.check_may_spawn()
        request = spawn_request(decode_arguments(call, SpawnArguments))
        role = f" [{request.agent_type}]" if request.agent_type else ""
        argument = f"{request.task_name}{role}: {request.message}"
        return TeamInvocation(argument, partial(self._spawn, request))

    async def _spawn(self, request: Spawn) -> ToolResult:
        spawned = await self._team.request(
            request,
            Spawned,
            limit_s=request.deadline_s + ANSWER_MARGIN_S,
            waiting=f"starts {request.task_name}",
        )
        self._team.children[spawned.path] = spawned.nickname
        tells_wait = spawned.waited_s >= _MIN_SHOWN_WAIT_S
        return ToolResult(content=as_json(spawn_result(request, spawned, tells_wait=tells_wait)))


def spawn_request(arguments: SpawnArguments) -> Spawn:
    """Return the request for these arguments. Raises ToolFailed, naming what is wrong."""
    if arguments.fork_context is not msgspec.UNSET:
        raise ToolFailed('there is no fork_context; write "fork_turns": "all" or "none" instead')
    try:
        check_segment(arguments.task_name)
    except ValueError as error:
        raise ToolFailed(str(error)) from error
    return Spawn(
        task_name=arguments.task_name,
        message=require_text(arguments.message),
        agent_type=_none_if_blank(arguments.agent_type),
        fork_turns=fork_turns_of(arguments.fork_turns),
        model=_none_if_blank(arguments.model),
        reasoning_effort=_none_if_blank(arguments.reasoning_effort),
        deadline_s=SPAWN_DEADLINE_S,
        claims=arguments.claims or (),
        isolation=arguments.isolation,
        host=_none_if_blank(arguments.host),
        resources=arguments.resources or {},
    )


def fork_turns_of(given: str | int | None) -> str:
    """Return `none`, `all` or a number ≥ 1 as text; blank or omitted means `all`."""
    text = "" if given is None else str(given).strip().lower()
    if text in {"", "all"}:
        return "all"
    if text == "none":
        return "none"
    if not (text.isascii() and text.isdigit()) or len(text) > 9 or int(text) < 1:
        raise ToolFailed(_FORK_RULE)
    return str(int(text))


def roles_text(roles: Iterable[RoleCard]) -> str:
    """Return the description of `agent_type`, with the available roles."""
    lines = ["The child's role, by default `default`."]
    cards = list(roles)
    if cards:
        lines.append("Available roles:")
    for card in cards:
        if not card.description.strip():
            lines.append(f"{card.name}: no description")
            continue
        lines += [
            f"{card.name}: {{",
            card.description.strip()[:_ROLE_CHARS],
            *_fixed_settings(card),
            "}",
        ]
    return "\n".join(lines)


def _hosts_text(hosts: Iterable[str]) -> str:
    """Return the description of `host`, with the names that there are."""
    names = ", ".join(f"`{name}`" for name in hosts)
    return f"Machines on which it works in a copy: {names}; or `here`."


def _fixed_settings(card: RoleCard) -> list[str]:
    match card.model, card.effort:
        case None, None:
            return []
        case model, None:
            return [f"- This role's model is set to `{model}` and cannot be changed."]
        case None, effort:
            return [f"- This role's reasoning effort is set to `{effort}` and cannot be changed."]
        case model, effort:
            return [
                f"- This role's model is set to `{model}` and its reasoning effort is set to "
                f"`{effort}`. These settings cannot be changed."
            ]


def _none_if_blank(name: str | None) -> str | None:
    return (name or "").strip() or None
