"""What a spawn request must pass; the child's plan, and its share of the parent's history. Pure.

Limits are the intersection of the parent's and the role's, never wider. A request that cannot be
met is refused, never silently changed. Of the history a child gets the latest turns, without what
only its parent needs.

Source: Codex's fork modes (first cut, then filter). Differs: an untagged answer that ended its turn
is kept (wires without phases have no others), and so is mail that gave a task.
"""

from collections.abc import Awaitable, Callable, Iterable
from difflib import get_close_matches

import msgspec

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.base.ids import AgentPath, child_path
from swarm.mailbox.base.model_reference import ModelReference
from swarm.mailbox.contents.context_markers import is_person_message
from swarm.mailbox.protocol.events import TurnCompleted
from swarm.mailbox.protocol.items import AnyItem, Compaction, Message, text_of
from swarm.mailbox.protocol.records import ContextRecorded, ItemRecorded, MailPosted, Record
from swarm.mailbox.protocol.requests import AnyReply, RequestRefused, Spawn
from swarm.mailbox.protocol.sampling import ModelInfo
from swarm.mailbox.protocol.settings import EFFORTS, ModelSettings
from swarm.mailbox.protocol.spec import RoleBrief
from swarm.mailbox.protocol.values.limits import DangerFullAccess, Isolation, Limits, ReadOnly
from swarm.roles.rights.narrow import narrow_isolation, narrow_limits
from swarm.roles.rights.role import Role
from swarm.roles.role_loader import Roles, find_role

from .agent_record import AgentPlan
from .claims import claimed_paths, task_key
from .run_providers import RunProviders

GUARDIAN = "guardian"
IN_COPY = (
    "You work in a copy of the project. From there you can start single agents on this machine: "
    "those that may write get copies of your copy, and others see it."
)
MERGES_IN_COPY = (
    "what the agents have changed that you start goes into your copy, which nobody else can write: "
    "merge it yourself with merge_changes, or start an agent of another role"
)
ELSEWHERE = (
    "You work in a copy of the project on another machine and start no agents. Solve the task "
    "yourself."
)
NO_SPAWNS = "Your role starts no agents. Solve the task yourself."
DEPTH_REACHED = "Agent depth limit reached. Solve the task yourself."
FORK_RULE = "fork_turns must be `none`, `all`, or a positive integer string"
EMPTY_MESSAGE = "message must not be empty: write into it what the agent is to read"
_MAX_MESSAGE_CHARS = 1 << 20


class AgentRequestError(Exception):
    """The request is refused; the text is for the model."""


def check_spawn_request(
    asker: AgentPlan, request: Spawn, *, pinned_model: str | None = None
) -> None:
    """Refuse a request that is wrong for every role. Raises AgentRequestError."""
    check_message(request.message)
    if not asker.role.tools.allows("spawn_agent"):
        raise AgentRequestError(NO_SPAWNS)
    if request.model is not None and pinned_model not in {None, _slug(request.model)}:
        raise AgentRequestError(
            f"every agent of this run has the model `{pinned_model}`: leave it out"
        )
    if asker.host:
        raise AgentRequestError(ELSEWHERE)
    if asker.depth + 1 > asker.limits.max_depth:
        raise AgentRequestError(DEPTH_REACHED)
    if request.reasoning_effort is not None and request.reasoning_effort not in EFFORTS:
        raise AgentRequestError(
            f"reasoning_effort `{request.reasoning_effort}` is not supported; leave it out, or "
            f"take one of {', '.join(EFFORTS)}"
        )
    if not 0 < request.deadline_s <= 86_400:
        raise AgentRequestError("deadline_s must be greater than zero and at most a day")


def _slug(model: str) -> str:
    """The name of the model without the provider before it."""
    return model.partition(":")[2] or model


def check_message(message: str) -> None:
    """Raises AgentRequestError for a blank message, or one over 1 Mi characters."""
    if not message.strip():
        raise AgentRequestError(EMPTY_MESSAGE)
    if len(message) > _MAX_MESSAGE_CHARS:
        raise AgentRequestError("the message is over 1 MiB; write it to a file and name the file")


def role_for(roles: Roles, name: str | None, providers: RunProviders | None = None) -> Role:
    """The child's role. Raises AgentRequestError: unknown, broken, or its provider cannot be used.

    No agent can spawn the guardian: only the supervisor starts it.
    """
    wanted = (name or "").strip() or "default"
    if wanted == GUARDIAN or wanted not in {*roles.known, *roles.broken}:
        near = get_close_matches(wanted, _spawnable_roles(roles), n=1)
        hint = f"; did you mean `{near[0]}`?" if near else "."
        known = ", ".join(_spawnable_roles(roles))
        raise AgentRequestError(f"unknown agent_type '{wanted}'{hint} Known: {known}")
    try:
        role = find_role(roles, wanted)
    except UsageError as error:
        raise AgentRequestError(f"agent type is currently not available: {error}") from error
    if role.model_provider is not None and providers is not None:
        try:
            providers.check(role.model_provider)
        except UsageError as error:
            raise AgentRequestError(f"role `{role.name}`: {error}") from error
    return role


def _spawnable_roles(roles: Roles) -> list[str]:
    return sorted(set(roles.known) - {GUARDIAN})


def plan_child(
    asker: AgentPlan,
    request: Spawn,
    role: Role,
    *,
    agent_id: str,
    model: ModelReference | None = None,
    isolation: Isolation = "shared",
) -> AgentPlan:
    """The child's plan, still without a nickname.

    `model`: its provider and model; None: the parent's, unless role or request name another model.
    `isolation`: what the run says of its agents but those that merge; role and request can only
    ask for a copy, too.

    What the role sets wins over what the request asks for, and that wins over what is inherited.
    Raises AgentRequestError for an invalid name or claim.
    """
    try:
        path = child_path(AgentPath(asker.path), request.task_name)
        claims = claimed_paths(request.claims, cwd=asker.cwd)
    except ValueError as error:
        raise AgentRequestError(str(error)) from error
    parent = asker.model_reference
    if model is None:
        named = role.model or request.model or parent.model
        model = msgspec.structs.replace(parent, model=named)
    return AgentPlan(
        path=path,
        agent_id=agent_id,
        role=child_brief(asker.role, role),
        limits=_child_limits(asker, role, (request.isolation, None if role.merges else isolation)),
        cwd=asker.cwd,
        parent=asker.path,
        depth=asker.depth + 1,
        model_settings=_child_model_settings(asker, request, role, model),
        fallbacks_taken=asker.fallbacks_taken if role.fallback is None and model == parent else 0,
        add_dirs=asker.add_dirs,
        claims=claims,
        task_key=task_key(request.message),
    )


def _child_model_settings(
    asker: AgentPlan, request: Spawn, role: Role, model: ModelReference
) -> ModelSettings:
    """An effort is inherited only with the model that it was chosen for."""
    asked = asker.model_settings
    own_effort = asked.effort if model == asker.model_reference else None
    return ModelSettings(
        model=model.model,
        effort=role.effort or request.reasoning_effort or own_effort,
        provider=model.provider,
        fallback=asked.fallback if role.fallback is None else role.fallback,
        summary=role.summary or asked.summary,
        verbosity=role.verbosity or asked.verbosity,
    )


def _child_limits(asker: AgentPlan, role: Role, wanted: tuple[Isolation | None, ...]) -> Limits:
    """Below a copy those that may write have a copy of that copy, and all others see it.

    Raises AgentRequestError for one that would merge there, and for a copy without a sandbox.
    """
    limits = narrow_limits(asker.limits, role)
    if asker.limits.isolation == "copy":
        if role.merges and not isinstance(limits.sandbox, ReadOnly):
            raise AgentRequestError(MERGES_IN_COPY)
        return msgspec.structs.replace(limits, isolation="copy")
    isolation = narrow_isolation(limits.isolation, *wanted, sandbox=limits.sandbox)
    if isolation == "copy" and isinstance(limits.sandbox, DangerFullAccess):
        raise AgentRequestError(
            "without a sandbox nothing holds an agent to a copy of the project; start it shared, "
            "or with a role that has a sandbox"
        )
    return msgspec.structs.replace(limits, isolation=isolation)


def child_brief(parent: RoleBrief, role: Role) -> RoleBrief:
    """The child's role brief; what the role leaves empty comes from the parent.

    Developer instructions come from the parent only if it has the same role, base instructions
    always. A locked parent has locked children.
    """
    brief = role.brief()
    instructions = brief.developer_instructions
    if not instructions and parent.name == brief.name:
        instructions = parent.developer_instructions
    return msgspec.structs.replace(
        brief,
        base_instructions=brief.base_instructions or parent.base_instructions,
        developer_instructions=instructions,
        locked=brief.locked or parent.locked,
        tools=parent.tools.narrowed(brief.tools),
        skills=parent.skills.narrowed(brief.skills),
    )


class SpawnLimits:
    """Checked before each spawn by a model; fan-outs and table jobs have limits of their own.

    Every agent that lives or lived counts; a spawn that was refused or cancelled does not.

    Args:
        most: How many agents models may start in one run, its resumed parts included.
        is_known_path: True for a path that an agent has or had, also an archived one.
        find_model: The run's model, once it is known.
    """

    def __init__(
        self,
        *,
        most: int,
        is_known_path: Callable[[str], bool],
        find_model: Callable[[], ModelInfo | None],
    ) -> None:
        self._max_spawns, self._is_known_path, self.find_model = most, is_known_path, find_model
        self.started = 0  # including spawns in progress

    def count_restored(self) -> None:
        """An agent that an earlier part of the run started."""
        self.started += 1

    def check(
        self, asker: AgentPlan, request: Spawn, roles: Roles, providers: RunProviders
    ) -> None:
        """Raises AgentRequestError that says what to do instead."""
        if self.started >= self._max_spawns:
            raise AgentRequestError(
                f"collab spawn failed: this run may start {self._max_spawns} agents in "
                "all, and has "
                "(agents.max_total). Give an agent that is there another task with followup_task, "
                "or solve the task yourself"
            )
        role = role_for(roles, request.agent_type, providers)
        try:
            named = providers.read(request.model or "")
        except UsageError as error:
            raise AgentRequestError(str(error)) from error
        own = asker.model_settings.provider
        if role.model_provider is None and named.provider is None and own is None:
            check_model(role.model or named.model, asker, self.find_model())

    async def count_spawn(self, path: str, grant: Callable[[], Awaitable[AnyReply]]) -> AnyReply:
        """Call `grant`, which starts an agent at `path`; count the spawn if it succeeded."""
        self.started += 1
        came = False
        try:
            reply = await grant()
            came = not isinstance(reply, RequestRefused)
            return reply
        except BaseException:  # the asker is gone; its child may exist all the same
            came = self._is_known_path(path)
            raise
        finally:
            self.started -= not came


def check_model(wanted: str | None, asker: AgentPlan, own: ModelInfo | None) -> None:
    """Check a model's name; only the embedded provider has a closed list of models.

    Other providers refuse unknown models themselves. Raises AgentRequestError with the known names.
    """
    present = asker.model_settings.model
    if wanted is None or own is None or own.wire != "local" or wanted == present:
        return
    if wanted != own.slug:
        raise AgentRequestError(
            f"Unknown model `{wanted}` for spawn_agent. Available models: {own.slug}"
        )


# --- history -----------------------------------------------------------------------------------


def parse_fork_turns(text: str) -> int | None:
    """How many turns: 0 = none, None = all. Raises ValueError with the rule."""
    wanted = text.strip().lower()
    if wanted in {"", "all"}:
        return None
    if wanted == "none":
        return 0
    if not (wanted.isascii() and wanted.isdigit()) or len(wanted) > 9 or int(wanted) < 1:
        raise ValueError(FORK_RULE)
    return int(wanted)


class _HistoryEntry:
    """An item of the parent's history, and whether it starts a turn."""

    def __init__(self, item: AnyItem, *, starts_turn: bool, is_task: bool = False) -> None:
        self.item, self.starts_turn, self.is_task = item, starts_turn, is_task
        self.ended_turn = False


def fork_history(records: Iterable[Record], *, turns: int | None) -> tuple[AnyItem, ...]:
    """The child's history.

    Args:
        records: The parent's own file, in order.
        turns: How many of its latest turns, ≥ 1; None = all.
    """
    entries = _read(records)
    starts = [index for index, one in enumerate(entries) if one.starts_turn]
    if turns is not None and len(starts) > turns:
        entries = entries[starts[-turns] :]
    return tuple(one.item for one in entries if _is_kept(one))


def _read(records: Iterable[Record]) -> list[_HistoryEntry]:
    entries: list[_HistoryEntry] = []
    tasks: set[str] = set()  # mail that starts a turn
    for record in records:
        match record.body:
            case ItemRecorded(item=item, item_id=item_id, source=source):
                is_task = source == "mail" and item_id in tasks
                entries.append(
                    _HistoryEntry(item, starts_turn=source == "user" or is_task, is_task=is_task)
                )
            case ContextRecorded(items=items):
                entries = [
                    _HistoryEntry(item, starts_turn=is_person_message(item)) for item in items
                ]
            case MailPosted(mail=mail) if mail.trigger_turn:
                tasks.add(mail.mail_id)
            case TurnCompleted(last_message=str() as last):
                _mark_answer(entries, last)
            case _:
                pass
    return entries


def _mark_answer(entries: list[_HistoryEntry], last_message: str) -> None:
    for one in reversed(entries):
        if one.starts_turn:
            return
        if isinstance(one.item, Message) and text_of(one.item.content) == last_message:
            one.ended_turn = True
            return


def _is_kept(one: _HistoryEntry) -> bool:
    item = one.item
    if not isinstance(item, Message):
        return isinstance(item, Compaction)  # a provider's summary of its start
    if item.role != "assistant":
        return True
    return item.phase == "final_answer" or one.is_task or (one.ended_turn and item.phase is None)
