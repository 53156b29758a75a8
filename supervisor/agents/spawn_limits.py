"""Checks before a spawn: the run's total number of agents, a known model.

Every agent that lives or lived counts; a spawn that was refused or cancelled does not.
"""

from collections.abc import Awaitable, Callable

from swarm.mailbox.protocol.requests import AnyReply, RequestRefused, Spawn
from swarm.mailbox.protocol.sampling import ModelInfo
from swarm.roles.role_loader import Roles

from .agent_record import AgentPlan
from .child_plan import AgentRequestError, role_for


class SpawnLimits:
    """Checked before each spawn by a model; fan-outs and table jobs have limits of their own.

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

    def check(self, asker: AgentPlan, wish: Spawn, roles: Roles, *, provider: str | None) -> None:
        """Raises AgentRequestError that says what to do instead."""
        if self.started >= self._max_spawns:
            raise AgentRequestError(
                f"collab spawn failed: this run may start {self._max_spawns} agents in "
                "all, and has "
                "(agents.max_total). Give an agent that is there another task with followup_task, "
                "or solve the task yourself"
            )
        role = role_for(roles, wish.agent_type, provider=provider)
        check_model(role.model or wish.model, asker, self.find_model())

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
