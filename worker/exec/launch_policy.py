"""The launch policy of a locked role: the launcher's own check of every order.

What a locked role's commands may reach follows only from the sealed spec, which the launcher reads
itself. Nothing that the agent sends widens it, because the agent may be hostile. The launcher wraps
and filters each command with its own arguments and its own copy of the filter, and passes on no
variable that steers bwrap's loader.
"""

import os

import msgspec

from swarm.mailbox.protocol.spec import AgentSpec, decode_spec
from swarm.mailbox.protocol.values.limits import ProfilePolicy

from ..sandbox.bwrap import entrypoint_argv
from ..sandbox.prepared_command import Confinement, is_loader_variable, prepare_command
from ..sandbox.sandbox_plan import SandboxPlan, SandboxUnavailable
from .command_plan import plan_command, with_memory_limit
from .launcher_protocol import LaunchOrder

_BWRAP_END = "--"


class LaunchPolicy:
    """Rewrites each order to what its role allows, or refuses it."""

    def __init__(self, spec: AgentSpec) -> None:
        self._spec = spec
        self._confinement: Confinement | None = None  # made once: it takes a walk over folders;
        # but a profile may also close files that appeared since.
        self._is_reusable = not isinstance(spec.limits.sandbox, ProfilePolicy)

    def enforce(self, order: LaunchOrder, fds: list[int]) -> LaunchOrder | None:
        """The order as it may run; None if it may not.

        A filter among `fds` is replaced. A route socket stays: it leads only to the proxy, whose
        policy for this agent is sealed.
        """
        route = fds[4:5]
        for fd in (*fds[3:4], *fds[5:]):
            os.close(fd)
        fds[3:] = route
        if order.keep_session:
            return None
        asked = order.resources.command_memory_bytes  # a narrower limit may stay
        resources = with_memory_limit(self._spec.inherited.resources, asked)
        order = msgspec.structs.replace(order, resources=resources)
        try:
            plan = plan_command(self._spec, self._spec.limits.sandbox, self._spec.cwd)
            if plan.writable or not plan.is_sandboxed:
                return None
            return (
                self._wrap_in_bwrap(order, fds, plan)
                if plan.stack == "bwrap"
                else self._confine_directly(order, plan)
            )
        except (SandboxUnavailable, OSError):
            return None

    def _wrap_in_bwrap(
        self, order: LaunchOrder, fds: list[int], plan: SandboxPlan
    ) -> LaunchOrder | None:
        """Wrap the command in bwrap by a plan made now: a socket that a rule opens may be new.

        The agent may have wrapped it for another stack than ours: a locked agent cannot probe
        bwrap.
        """
        words, inside, tty = order.argv, dict[str, str](), order.take_terminal
        if order.wrapped:
            if _BWRAP_END not in words[:-1]:
                return None
            end = words.index(_BWRAP_END)
            inside, words = _variables_inside(words[:end]), words[end + 1 :]
            if plan.proxied is not None:
                words, tty = _without_entrypoint(words)
        prepared = prepare_command(plan, words, order.environment | inside, tty=tty)
        assert prepared.filter_fd is not None
        fds.insert(3, prepared.filter_fd)  # the caller closes it with the others
        return msgspec.structs.replace(
            order,
            argv=prepared.argv,
            environment=prepared.environment,
            take_terminal=False,  # the entrypoint inside takes it
            confinement=prepared.confinement,
            wrapped=True,
            placeholders=(),  # a read-only sandbox needs none
        )

    def _confine_directly(self, order: LaunchOrder, plan: SandboxPlan) -> LaunchOrder:
        """Confine the command before it begins, whether or not the agent wrapped it."""
        if self._confinement is None or not self._is_reusable:
            self._confinement = prepare_command(plan, (), {}, tty=False).confinement
        return msgspec.structs.replace(
            order, confinement=self._confinement, wrapped=False, placeholders=()
        )


def read_launch_policy(spec_fd: int) -> LaunchPolicy | None:
    """Read the policy from a sealed spec and close `spec_fd`; None if the role is not locked.

    Raises msgspec.DecodeError, OSError: then nothing may be started at all.
    """
    try:
        spec = decode_spec(os.pread(spec_fd, os.fstat(spec_fd).st_size, 0))
    finally:
        os.close(spec_fd)
    return LaunchPolicy(spec) if isinstance(spec, AgentSpec) and spec.role.locked else None


def _without_entrypoint(words: tuple[str, ...]) -> tuple[tuple[str, ...], bool]:
    """The words without the agent's entrypoint, and whether that one takes the terminal."""
    for tty in (True, False):
        stage = entrypoint_argv(tty=tty, proxied=True)
        if words[: len(stage)] == stage:
            return words[len(stage) :], tty
    return words, False


def _variables_inside(words: tuple[str, ...]) -> dict[str, str]:
    """Loader variables that the agent's wrapping sets inside the sandbox only; harmless there."""
    triples = zip(words, words[1:], words[2:], strict=False)
    return {n: v for word, n, v in triples if word == "--setenv" and is_loader_variable(n)}
