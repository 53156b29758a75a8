"""One agent process's lifecycle over any mailbox, from Hello to Goodbye.

At Shutdown the turn is aborted, commands are ended and queued events are delivered, each within a
deadline; afterwards nothing of the agent runs.
"""

from collections.abc import Mapping
from functools import partial
from typing import Protocol

import trio

from swarm.mailbox.base.entropy import SYSTEM_ENTROPY, EntropySources
from swarm.mailbox.base.process_tree import resident_bytes
from swarm.mailbox.delivery.interfaces import Mailbox
from swarm.mailbox.protocol.events import Goodbye, Heartbeat, Hello, encode_event
from swarm.mailbox.protocol.hooks import Hook
from swarm.mailbox.protocol.requests import EnvironmentReply, GetEnvironment
from swarm.mailbox.protocol.spec import AgentSpec
from swarm.mailbox.protocol.values.base import PROTOCOL_VERSION
from swarm.roles.parts.hooks.hook_output import HookEnd

from ..base.current_spec import CurrentSpec
from ..base.inbox import Inbox
from ..base.reporter import Reporter
from ..exec.exec_sessions import EnvironmentSource
from ..parts.hooks.background_hooks import BackgroundHooks
from ..parts.hooks.hook_dispatch import HookDispatcher
from ..parts.hooks.hook_questions import HookQuestions
from ..parts.hooks.hook_runner import HookRunner
from ..parts.hooks.session_hooks import SessionHooks
from ..parts.hooks.tool_hooks import ToolHooks
from ..sandbox.landlock import lock_gap
from ..tools.approval_requester import ApprovalRequester
from ..tools.interface.team_client import TeamClient
from ..tools.orchestrator import Orchestrator, ToolRegistry
from .agent_session import AgentSession
from .state.agent_state import AgentState
from .state.hook_answers import answer_hook_questions
from .state.permission_answers import answer_permission_questions
from .state.sampler import OpenMailbox
from .state.server_answers import answer_server_questions

HEARTBEAT_S = 2.0
COMMANDS_ENDED = "The user ended the commands that ran in the background ({count})."
_END_COMMANDS_S = 5.0
_END_HOOKS_S = 2.0  # for SessionEnd hooks and those in the background; then they are ended
_ENVIRONMENT_LIMIT_S = 10.0


class ToolHost(Protocol):
    """The tools of an agent and the commands that they started."""

    def make_registry(self, reporter: Reporter, team: TeamClient) -> ToolRegistry:
        """Create the tools, once per process; some emit events or send requests about the team."""
        ...

    @property
    def live_commands(self) -> int:
        """Number of commands that run now."""
        ...

    def set_environment_source(self, source: EnvironmentSource) -> None:
        """Set where to request the environment of commands; called before the first command."""
        ...

    async def prewarm(self) -> None:
        """Prepare for a call while the model writes it: the first one; with hooks, each."""
        ...

    async def end_commands(self) -> None:
        """End all commands within a limited time."""
        ...

    async def run_hook(self, hook: Hook, payload: bytes) -> HookEnd:
        """Run a hook with this input; nothing of it is left when it returns."""
        ...


async def run_agent_lifecycle(
    current: CurrentSpec,
    post: Mailbox,
    dial: OpenMailbox,
    tools: ToolHost,
    entropy: EntropySources = SYSTEM_ENTROPY,
) -> None:
    """Run one agent from Hello to Goodbye, over any mailbox.

    Args:
        current: The agent's spec; its session changes it, the tools must read the same object.
        post: The mailbox to the supervisor; owned by the caller.
        dial: Opens a mailbox to a gateway's endpoint; called again whenever the gateway has moved.
        tools: The agent's tools and commands; owned by the caller, the commands are ended here.
        entropy: Ids, noise, the wall clock and the pid.
    """
    spec = current.spec
    # First of all: the supervisor works on it meanwhile.
    await post.post(encode_event(_hello(spec, entropy)))
    reporter = Reporter(post, saves_files=bool(spec.gateway.door))
    team = TeamClient(current, reporter, Inbox(entropy.new_id))
    tools.set_environment_source(partial(_request_environment, reporter, spec))
    questions, background = HookQuestions(), BackgroundHooks()
    run = HookRunner(tools.run_hook, reporter, questions).run
    dispatcher = HookDispatcher(current, reporter, run, team.inbox.add_note, background)
    told, hooks = SessionHooks(dispatcher, current), ToolHooks(dispatcher)
    performs = _make_orchestrator(current, reporter, team, tools, hooks)
    state = AgentState(current, reporter, team, performs, hooks=told, dial=dial, entropy=entropy)
    session = AgentSession(state)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(reporter.run_outbox)
        nursery.start_soon(reporter.run_deltas)
        nursery.start_soon(_send_heartbeats, state, tools)
        nursery.start_soon(state.sampler.stay_connected)
        nursery.start_soon(session.run_turns)
        nursery.start_soon(_prewarm_before_calls, state, tools)
        nursery.start_soon(_end_commands_on_request, state, tools)
        nursery.start_soon(_serve_questions, session, questions, hooks, background)
        shutdown = await session.serve_ops(post)
        with trio.move_on_after(_END_COMMANDS_S):
            await session.close("run_ended" if shutdown.run_ended else "interrupted")
            await _end_hooks(state, background)
            await tools.end_commands()
        reporter.emit(Goodbye())
        with trio.move_on_after(max(0.1, shutdown.grace_s)):
            await reporter.flush()
        nursery.cancel_scope.cancel()


def _hello(spec: AgentSpec, entropy: EntropySources) -> Hello:
    return Hello(
        secret=spec.secret,
        pid=entropy.pid(),
        protocol_version=PROTOCOL_VERSION,
        lock_gap=lock_gap() if spec.role.locked else "",
    )


async def _serve_questions(
    session: AgentSession, questions: HookQuestions, hooks: ToolHooks, background: BackgroundHooks
) -> None:
    """Run background hooks, and answer what hooks and MCP servers ask the model, where any are."""
    state = session.state
    async with trio.open_nursery() as nursery:
        if state.spec.inherited.hooks:
            nursery.start_soon(background.run)
            nursery.start_soon(answer_hook_questions, state, questions)
            asked = session.permission_questions
            nursery.start_soon(answer_permission_questions, state, hooks, asked)
        if state.spec.mcp_wait_s:
            nursery.start_soon(answer_server_questions, state, session.server_questions)


async def _end_hooks(state: AgentState, background: BackgroundHooks) -> None:
    """Run SessionEnd hooks, and let those in the background end, within a limited time."""
    with trio.move_on_after(_END_HOOKS_S):
        await state.hooks.end()
        await background.wait_idle()


def _make_orchestrator(
    current: CurrentSpec,
    reporter: Reporter,
    team: TeamClient,
    tools: ToolHost,
    hooks: ToolHooks,
) -> Orchestrator:
    """What performs calls."""
    registry = tools.make_registry(reporter, team)
    approvals = ApprovalRequester(current, reporter, hooks, team.inbox.add_note)
    return Orchestrator(registry, reporter, approvals, hooks)


async def _send_heartbeats(state: AgentState, tools: ToolHost) -> None:
    """Send a heartbeat every two seconds: the loop runs, and whether there is progress."""
    while True:
        await trio.sleep(HEARTBEAT_S)
        state.reporter.emit_transient(
            Heartbeat(
                progress=state.reporter.progress,
                busy=state.turn is not None,
                rss_bytes=resident_bytes("self"),
                live_commands=tools.live_commands,
            )
        )


async def _request_environment(reporter: Reporter, spec: AgentSpec) -> Mapping[str, str]:
    """Request the login shell's environment, read once a run by the supervisor; else the spec's."""
    with trio.move_on_after(_ENVIRONMENT_LIMIT_S):
        reply = await reporter.request(GetEnvironment())
        if isinstance(reply, EnvironmentReply):
            return reply.variables
    return spec.environment


async def _prewarm_before_calls(state: AgentState, tools: ToolHost) -> None:
    """Prepare while the model still writes its first call that may start a command; with hooks,
    each call.

    Not earlier: half of all agents never run a command, and each would wake its launcher or hold an
    environment for nothing.
    """
    while True:
        await state.sampler.wait_command_expected()
        await tools.prewarm()
        if not state.spec.inherited.hooks:
            return


async def _end_commands_on_request(state: AgentState, tools: ToolHost) -> None:
    """End background commands after each interrupt, within a limited time; loops for ever."""
    while True:
        await state.end_commands_requested.wait()
        state.end_commands_requested = trio.Event()
        if not (running := tools.live_commands):
            continue
        if state.tells_commands_ended:
            state.inbox.add_note(COMMANDS_ENDED.format(count=running))
        with trio.move_on_after(_END_COMMANDS_S):
            await tools.end_commands()
