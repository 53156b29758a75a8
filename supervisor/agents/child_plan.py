"""What a spawn request must pass, and the child's plan: what it inherits, what its role sets. Pure.

Limits are the intersection of the parent's and the role's, never wider. A request that cannot be
met is refused, never silently changed.
"""

from collections.abc import Awaitable, Callable
from difflib import get_close_matches

import msgspec

from swarm.mailbox.errors import UsageError
from swarm.mailbox.ids import AgentPath, child_path
from swarm.mailbox.protocol.requests import AnyReply, RequestRefused, Spawn
from swarm.mailbox.protocol.sampling import ModelInfo
from swarm.mailbox.protocol.spec import RoleBrief
from swarm.roles.narrow import narrow_limits
from swarm.roles.role import Role
from swarm.roles.role_loader import Roles, find_role

from .agent_record import AgentPlan

GUARDIAN = "guardian"
DEPTH_REACHED = "Agent depth limit reached. Solve the task yourself."
EMPTY_MESSAGE = "Empty message can't be sent to an agent"
EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh")
_MAX_MESSAGE_CHARS = 1 << 20


class AgentRequestError(Exception):
    """The request is refused; the text is for the model."""


def check_spawn_request(
    asker: AgentPlan, request: Spawn, *, pinned_model: str | None = None
) -> None:
    """Refuse a request that is wrong for every role. Raises AgentRequestError."""
    check_message(request.message)
    if request.model is not None and pinned_model not in {None, request.model}:
        raise AgentRequestError(
            f"every agent of this run has the model `{pinned_model}`: leave it out"
        )
    if asker.depth + 1 > asker.limits.max_depth:
        raise AgentRequestError(DEPTH_REACHED)
    if request.reasoning_effort is not None and request.reasoning_effort not in EFFORTS:
        raise AgentRequestError(
            f"Reasoning effort `{request.reasoning_effort}` is not supported. Supported reasoning "
            f"efforts: {', '.join(EFFORTS)}"
        )
    if not 0 < request.deadline_s <= 86_400:
        raise AgentRequestError("deadline_s must be greater than zero and at most a day")


def check_message(message: str) -> None:
    """Raises AgentRequestError for a blank message, or one over 1 Mi characters."""
    if not message.strip():
        raise AgentRequestError(EMPTY_MESSAGE)
    if len(message) > _MAX_MESSAGE_CHARS:
        raise AgentRequestError("the message is over 1 MiB; write it to a file and name the file")


def role_for(roles: Roles, name: str | None, *, provider: str | None) -> Role:
    """The child's role. Raises AgentRequestError: unknown, broken, or of another provider.

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
    if role.model_provider not in {None, provider}:
        raise AgentRequestError(
            f"role `{role.name}` wants provider {role.model_provider}, but a run has one"
        )
    return role


def _spawnable_roles(roles: Roles) -> list[str]:
    return sorted(set(roles.known) - {GUARDIAN})


def plan_child(asker: AgentPlan, request: Spawn, role: Role, *, agent_id: str) -> AgentPlan:
    """The child's plan, still without a nickname.

    What the role sets wins over what the request asks for, and that wins over what is inherited.
    Raises AgentRequestError for an invalid name.
    """
    try:
        path = child_path(AgentPath(asker.path), request.task_name)
    except ValueError as error:
        raise AgentRequestError(str(error)) from error
    model = role.model or request.model or asker.model
    effort = role.effort or request.reasoning_effort
    if effort is None and model == asker.model:
        effort = asker.effort
    return AgentPlan(
        path=path,
        agent_id=agent_id,
        role=child_brief(asker.role, role),
        limits=narrow_limits(asker.limits, role),
        cwd=asker.cwd,
        parent=asker.path,
        depth=asker.depth + 1,
        model=model,
        effort=effort,
        add_dirs=asker.add_dirs,
        summary=asker.summary,
        verbosity=asker.verbosity,
    )


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
        self, asker: AgentPlan, request: Spawn, roles: Roles, *, provider: str | None
    ) -> None:
        """Raises AgentRequestError that says what to do instead."""
        if self.started >= self._max_spawns:
            raise AgentRequestError(
                f"collab spawn failed: this run may start {self._max_spawns} agents in "
                "all, and has "
                "(agents.max_total). Give an agent that is there another task with followup_task, "
                "or solve the task yourself"
            )
        role = role_for(roles, request.agent_type, provider=provider)
        check_model(role.model or request.model, asker, self.find_model())

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
    if wanted is None or own is None or own.wire != "local" or wanted == asker.model:
        return
    if wanted != own.slug:
        raise AgentRequestError(
            f"Unknown model `{wanted}` for spawn_agent. Available models: {own.slug}"
        )
