"""One run from start to end: opens everything in order, closes it in reverse order.

Order: the folder's lock, the mailbox socket, the journal, the process manager, then the tasks
(gateway, event router, heartbeat monitor, control socket, display), then the workload. The end of
the workload, a signal or a failed part ends the rest.
"""

import shutil
from collections.abc import Callable
from contextlib import AsyncExitStack, closing, suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple, Protocol

import msgspec
import trio

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.base.ids import RunId, short_id
from swarm.mailbox.base.redact import NOT_HIDDEN, Redactor, unhidden_keys
from swarm.mailbox.base.remove_tree import remove_tree
from swarm.mailbox.protocol.events import Warned
from swarm.mailbox.protocol.records import RunCompleted, RunStarted
from swarm.mailbox.protocol.values.base import SCHEMA_VERSION

from .agents.agent_directory import AgentDirectory
from .agents.agent_hooks import AgentHooks
from .agents.agent_record import Agent, GatewayAddress
from .agents.descriptor_limit import limit_by_descriptors
from .agents.finished_agents import FinishedAgents
from .agents.life.agent_manager import AgentManager
from .agents.life.agent_start import StartServices
from .agents.life.heartbeat_monitor import monitor_heartbeats
from .agents.moved_team import moved_past
from .agents.private_tmp import remove_all_caches
from .agents.slots import AgentRegistry
from .approvals.approval_grants import ApprovalGrants
from .approvals.approval_types import AutoReviewer, LazyReviewer
from .approvals.queue.approval_queue import ApprovalQueue, open_approval_queue
from .base.exception_groups import first_error
from .base.run_display import RunDisplay
from .base.run_pauses import RunPauses
from .base.version import VERSION
from .context.agent_places import AgentPlaces
from .context.current_skills import CurrentSkills
from .context.event_broadcast import EventBroadcast
from .context.run_context import RunContext
from .context.run_phases import RunEvent
from .context.service_process import Services
from .gateway.gateway_manager import GatewayManager
from .journal.journal import open_journal
from .journal.journal_files import repair_tail
from .journal.journal_reader import last_seq_of_others, other_files
from .journal.replay import RunPast
from .part_calls.run_folds import RunFolds
from .parts.budget.budget_service import BudgetService
from .parts.budget.deadlines import DeadlineMonitor
from .parts.copies.live.end_merges import finish_files
from .parts.copies.live.live_merges import finish_cut_off_merges
from .parts.copies.prepared_layers import Preparation
from .parts.copies.project_copies import ProjectCopies
from .parts.hosts.host_manager import HostManager
from .parts.hosts.placement.remote_hosts import RemoteHosts
from .parts.mcp.hub_manager import HubManager
from .parts.mcp.mcp_requests import McpEndpoint
from .parts.mcp.run_hubs import RunHubs
from .parts.network.proxy_manager import ProxyManager
from .parts.run_parts import RunParts
from .parts.skills.skill_watcher import watch_skills
from .parts.undo.content_store import ContentStore
from .parts.undo.live.file_history import FileHistory
from .processes.early_start import EarlyProcesses
from .request.isolation_text import describe_isolation
from .request.run_request import RunRequest
from .request.saved_request import save_request
from .routing.control_server import ControlledParts, ControlService
from .routing.event_router import EventRouter, open_tables
from .routing.file_requests import FileRequests
from .routing.request_table import RequestTable
from .run_start.dependencies import REAL_DEPENDENCIES, RunDependencies
from .run_start.machine_room import check_room
from .run_start.run_programs import HeldRun, hold_programs
from .runs.folder_watch import watch_folders, write_owner
from .runs.paths import RunPaths, UserPaths, make_private_folder, paths_of_run
from .runs.project_mark import mark_project
from .runs.run_metadata import (
    RunMetadata,
    is_empty_run,
    lock_run,
    network_filesystem_warning,
    read_metadata,
    write_metadata,
)
from .runs.short_tmp import ShortTmp, open_short_tmp
from .team.team_service import TeamService, run_team_service
from .views.run_state import RunState
from .workload.run_shutdown import RunShutdown, SignalBuffer, receive_signals
from .workload.task_workload import TaskWorkload

_MAX_BAD_TOLD = 20  # bad journal lines that get a warning each
_SOCKET_PATH_BYTES = 100  # the kernel's limit is 107
_GATEWAY_EPOCHS_PER_START = 1_000  # of the gateway; so a resumed run never reuses an epoch


class Workload(Protocol):
    """What a run does: the given task, or something else that needs its processes."""

    async def run(self) -> RunCompleted: ...

    def close(self) -> None:
        """Called once every agent has ended."""


MakeWorkload = Callable[
    [RunContext, AgentManager, TeamService, GatewayManager, RunShutdown, RunPast], Workload
]


async def run_to_end(  # noqa: PLR0917 - the two last ones are the simulation's
    request: RunRequest,
    view: RunDisplay,
    early: EarlyProcesses,
    user_paths: UserPaths,
    make_workload: MakeWorkload = TaskWorkload,
    dependencies: RunDependencies = REAL_DEPENDENCIES,
) -> RunCompleted:
    """Run, or resume when `request.resumes`. Returns when every process of the run has ended.

    The outcome of the run is a value, also when a provider refused or somebody interrupted it.
    Raises UsageError before anything is started (another process already runs it, or it is of
    another version), and SwarmError when the journal or the state folder cannot be written.
    """
    run_paths = paths_of_run(user_paths, request.run_id or dependencies.entropy.new_id())
    if request.resumes:
        read_metadata(run_paths)  # raises if this is no run, or one of another version
    try:
        async with trio.open_nursery() as nursery:
            signals: SignalBuffer = await nursery.start(receive_signals)
            with (
                lock_run(run_paths) as lock_fd,
                open_short_tmp(run_paths.state, short_id(run_paths.folder.name)) as short_tmp,
            ):
                try:
                    locked = _LockedRun(
                        run_paths, user_paths, early, make_workload, dependencies, signals,
                        lock_fd, short_tmp, RunFolds(_empty_view(request)),
                    )  # fmt: skip
                    completed = await _run_locked(request, view, locked)
                finally:
                    shutil.rmtree(run_paths.sockets, ignore_errors=True)
                    remove_all_caches(run_paths.tmp)
                    if is_empty_run(run_paths):  # an empty folder would be listed as a run
                        with suppress(OSError):
                            remove_tree(run_paths.folder)
            nursery.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        if (fault := first_error(group)) is not None:
            raise fault from None
        raise
    if request.ephemeral:
        with suppress(OSError):
            remove_tree(run_paths.folder)
    view.finish(completed)
    return completed


class _LockedRun(NamedTuple):
    """A run's locked folder and the parts that the run is made from."""

    run_paths: RunPaths
    user_paths: UserPaths
    early: EarlyProcesses
    make_workload: MakeWorkload
    dependencies: RunDependencies
    signals: SignalBuffer  # received before any file is made, so that all is cleaned up
    lock_fd: int
    short_tmp: ShortTmp
    folds: RunFolds  # what is found in the journal of a resumed run


class _OpenRun(NamedTuple):
    """What is open before the first process of the run."""

    running: RunContext
    starts: StartServices
    parts: RunParts
    past: RunPast


async def _run_locked(request: RunRequest, view: RunDisplay, locked: _LockedRun) -> RunCompleted:
    run_paths = locked.run_paths
    past = _prepare(request, run_paths, locked.folds)
    write_owner(run_paths, locked.lock_fd)
    check_room()
    started = trio.current_time()
    async with AsyncExitStack() as stack:
        held = hold_programs(request, run_paths.server_programs)
        running = await _open_context(stack, held, view, locked, past)
        parts = RunParts(running.request, running.paths, locked.folds.parts)
        starts = await _open_starts(stack, parts, held, locked, past)
        about = _record_start(running, past, (*held.warnings, locked.short_tmp.warning))
        completed = await _run_parts(_OpenRun(running, starts, parts, past), locked, view)
        await running.journal.flush()  # so that its last redactions are counted
        completed = _with_totals(running, completed, trio.current_time() - started)
        record = await running.commit(completed)
        assert isinstance(record.body, RunCompleted)
        completed = record.body  # as written: redacted
    after = msgspec.structs.replace(
        about,
        status=completed.status,
        ended=record.ts,
        result=completed.result,
        message=completed.message,
        usage=completed.usage,
        usd=completed.usd,
        agents=completed.agents,
    )
    write_metadata(run_paths, after)
    return completed


def _prepare(request: RunRequest, run_paths: RunPaths, folds: RunFolds) -> RunPast:
    """Make the folders; read the past of a resumed run from its journal."""
    if len(run_paths.gateway_endpoint(_GATEWAY_EPOCHS_PER_START)) > _SOCKET_PATH_BYTES:
        raise UsageError(
            f"{run_paths.sockets} is too long for a socket; set XDG_RUNTIME_DIR or TMPDIR"
        )
    for folder in (
        run_paths.journal,
        run_paths.blobs,
        run_paths.tmp,
        *run_paths.kept_apart,  # there from the start, so that they are hidden from the start
        run_paths.sockets.parent,
        run_paths.sockets,
    ):
        make_private_folder(folder)
    if not request.resumes:
        request = msgspec.structs.replace(request, began_in=mark_project(request.cwd))
    save_request(run_paths, request)  # also on a resume: a raised limit stays raised
    if not request.resumes:
        return RunPast()
    if request.inherited.moves:
        ContentStore(run_paths.file_copies).record_moves(request.inherited.moves)
    for file in other_files(run_paths):
        repair_tail(file)  # a line torn by a power loss would end up in the middle
    read = folds.read(run_paths)
    return msgspec.structs.replace(
        moved_past(folds.run, request.inherited.moves),
        bad_lines=tuple(map(str, read.bad_lines)),
        last_seq=max(read.last_seq, last_seq_of_others(run_paths)),
        own_bytes=read.size_bytes,
    )


async def _open_context(
    stack: AsyncExitStack,
    held: HeldRun,
    view: RunDisplay,
    locked: _LockedRun,
    past: RunPast,
) -> RunContext:
    run_paths, dependencies = locked.run_paths, locked.dependencies
    request = held.request
    mailbox = await stack.enter_async_context(dependencies.open_mailbox(run_paths.mailbox_endpoint))
    feed = await stack.enter_async_context(dependencies.open_feed(run_paths.feed_endpoint))
    redactor, unix_s = Redactor(request.secrets), dependencies.entropy.unix_s
    opened = open_journal(run_paths, last_seq=past.last_seq, redactor=redactor, unix_s=unix_s)
    journal = await stack.enter_async_context(opened)
    hosts = RemoteHosts(request.copies.hosts)
    return RunContext(
        run_id=RunId(run_paths.folder.name),
        run_key=dependencies.entropy.random_bytes(32),
        request=request,
        paths=run_paths,
        mailbox=mailbox,
        journal=journal,
        broadcast=EventBroadcast(locked.folds.shown, view, feed, redactor=redactor),
        agents=_open_directory(stack, request, run_paths),
        grants=ApprovalGrants(),
        skills=CurrentSkills(request),
        pauses=RunPauses(),
        copies=_open_copies(run_paths, request, hosts),
        hosts=hosts,
        protected=held.protected,
        entropy=dependencies.entropy,
        began_s=unix_s(),
    )


async def _open_starts(
    stack: AsyncExitStack, parts: RunParts, held: HeldRun, locked: _LockedRun, past: RunPast
) -> StartServices:
    """What starts the processes of the run; none is left when the stack is closed."""
    opened = locked.dependencies.open_processes(locked.early)
    return StartServices(
        processes=await stack.enter_async_context(opened),
        part_rules=parts.rules_for,
        gateway=GatewayAddress(epoch=past.starts * _GATEWAY_EPOCHS_PER_START),
        places=AgentPlaces(short_tmp=locked.short_tmp, writable=held.places),
    )


def _open_copies(run_paths: RunPaths, request: RunRequest, hosts: RemoteHosts) -> ProjectCopies:
    preparation = Preparation(
        commands=request.copies.prepare,
        inputs=request.copies.prepare_inputs,
        environment=request.environment,
        hold_turn=hosts.hold_turn,
    )
    return ProjectCopies(run_paths, request.copies.copy_kind, preparation)


def _open_directory(
    stack: AsyncExitStack, request: RunRequest, run_paths: RunPaths
) -> AgentDirectory:
    """Who may live and who has lived; the archive is closed with the stack."""
    archive = stack.enter_context(closing(FinishedAgents(run_paths.folder)))
    max_agents, limit_reason = limit_by_descriptors(request.team.max_agents)
    registry = AgentRegistry(max_agents, bound=limit_reason, archive=archive)
    return AgentDirectory(registry, archive)


def _empty_view(request: RunRequest) -> RunState:
    max_agents, _ = limit_by_descriptors(request.team.max_agents)
    return RunState(slots_max=max_agents)


def run_title(task: str, prompt: str) -> str:
    """What lists show: the task file's name, if there is one, and the prompt's first line."""
    first = next((line.strip("# ") for line in prompt.splitlines() if line.strip()), "")
    file = Path(task).name if Path(task).suffix else ""
    return f"{file}: {first}" if file else first


def _record_start(running: RunContext, past: RunPast, found: tuple[str, ...]) -> RunMetadata:
    """Write the first record and `run.json`. `found`: warnings of what was found at the start."""
    request = running.request
    title = run_title(request.task, request.prompt)
    title = running.journal.redactor.redact(title)[:80]  # before the cut: half a key is secret, too
    record = running.note(
        RunStarted(
            run_id=running.run_id,
            task=request.task,
            title=title,
            cwd=request.cwd,
            version=VERSION,
            resumed=past.started is not None,
            widened=request.widened,
            isolation=describe_isolation(request),
        )
    )
    unhidden = [f"{name} {NOT_HIDDEN}" for name in unhidden_keys(request.keys)]
    warnings = [*past.bad_lines[:_MAX_BAD_TOLD], *unhidden, running.agents.registry.limit_reason]
    warnings += found
    for warning in filter(None, warnings):
        running.note(Warned(message=warning))
    about = RunMetadata(
        schema_version=SCHEMA_VERSION,
        run_id=running.run_id,
        title=title,
        task=running.journal.redactor.redact(request.task),
        cwd=request.cwd,
        pid=running.entropy.pid(),
        started=past.started_ts or record.ts,
        version=VERSION,
    )
    write_metadata(running.paths, about)
    return about


async def _run_parts(  # noqa: PLR0915 - opens what a run consists of, in order
    opened: _OpenRun, locked: _LockedRun, view: RunDisplay
) -> RunCompleted:
    """Run the workload, and beside it every other part of the run."""
    running, starts, parts, past = opened
    processes, first_epoch = starts.processes, starts.gateway.epoch
    budget = _open_budget(running, locked.folds)
    places = locked.user_paths
    gateway = GatewayManager(
        running,
        starts.gateway,
        budget,
        processes,
        places=starts.places.writable,
        models_dir=str(places.models),
        former=past.provider,
    )
    async with trio.open_nursery() as nursery:

        def forget(agent: Agent) -> None:
            budget.forget_agent(agent)
            nursery.start_soon(gateway.forget_agent, agent.plan.agent_id, agent.epoch)
            nursery.start_soon(hubs.release_agent, agent.plan.agent_id)

        hooks = AgentHooks(
            budget.admit, forget, find_model=lambda: gateway.model, try_now=gateway.try_now
        )
        nursery.start_soon(budget.run)
        if (short_tmp := starts.places.short_tmp).stale:
            in_thread = partial(trio.to_thread.run_sync, abandon_on_cancel=True)
            nursery.start_soon(in_thread, short_tmp.remove_stale)
        team_service: TeamService = await nursery.start(
            run_team_service, running, starts, parts, hooks
        )
        agents = team_service.agents
        deadlines = DeadlineMonitor(running, agents, budget.notify)
        nursery.start_soon(deadlines.run)
        shutdown = RunShutdown(
            agents, team_service, nursery, keep_open=running.request.lifetime.keep_open
        )
        queue = _open_approvals(running, agents, nursery, locked)
        proxy = ProxyManager(running, nursery, queue.hooked, processes, first_epoch=first_epoch)
        hosts = HostManager(running, starts, first_epoch=first_epoch)
        hubs = RunHubs(running, starts, queue.broker, first_epoch=first_epoch)
        services = Services((gateway, proxy, hosts), hubs)
        mcp = McpEndpoint(running, hubs, nursery)
        history = FileHistory(running, nursery)
        files = FileRequests(running, history, nursery)
        requests = RequestTable(files, team_service, queue.endpoint, mcp, team_service.parts)
        tables = open_tables(running, agents, history, requests, nursery)
        router = EventRouter(running, agents, services, tables)
        for part in (proxy, hubs, hosts, router):
            nursery.start_soon(part.run)
        locked.signals.set_handler(shutdown.handle_signal)
        nursery.start_soon(watch_folders, running.paths, locked.lock_fd)
        nursery.start_soon(monitor_heartbeats, running, agents, services)
        nursery.start_soon(watch_skills, running, agents)
        nursery.start_soon(view.draw, running.broadcast.current_view)
        if warning := network_filesystem_warning(running.paths.folder):
            running.note(Warned(message=warning))
        async with locked.dependencies.open_control(running.paths.control_endpoint) as server:
            controlled = ControlledParts(agents, team_service, shutdown, queue.answers, history)
            nursery.start_soon(ControlService(running, server, controlled).serve)
            await gateway.process.loop.start()
            nursery.start_soon(gateway.process.loop.run)
            history.change_watcher.scan_baseline(running.request)
            await proxy.wait_ready()
            nursery.start_soon(running.copies.make_ahead, running.request)
            if past.started is not None:
                await history.clear_cut_off_undos(locked.folds.pop_files())
            await finish_cut_off_merges(running, history, locked.folds.merges)
            workload = locked.make_workload(running, agents, team_service, gateway, shutdown, past)
            completed = await _run_workload(hubs.home, workload)
            agents.run_life.apply(
                RunEvent.END_BEGAN
            )  # agents that still work continue after a resume
            team_service.close()
            proxy.process.loop.expect_end()
            hubs.expect_end()

            async def stop() -> None:
                await hubs.stop()
                await hosts.stop_before(gateway.process.loop.stop)

            await shutdown.carry_out(stop, partial(processes.close, grace_s=0.0))
            workload.close()
            await finish_files(running, history, completed)
            nursery.cancel_scope.cancel()
    return completed


async def _run_workload(hub: HubManager, workload: Workload) -> RunCompleted:
    """Run the task, unless an MCP server is missing without which the run must not begin."""
    if missing := await hub.start_required():
        return RunCompleted(status="failed", message=missing)
    return await workload.run()


def _open_approvals(
    running: RunContext,
    agents: AgentManager,
    nursery: trio.Nursery,
    locked: _LockedRun,
) -> ApprovalQueue:
    """Open the queue of approval requests."""

    def make_reviewer() -> AutoReviewer:
        from .parts.guardian.guardian import (
            make_guardian,  # takes milliseconds; not needed at the start
        )

        return make_guardian(running, agents, nursery, running.agents.plan_of)

    return open_approval_queue(
        running,
        nursery,
        agents,
        running.agents.plan_of,
        past=locked.folds.approvals.past(),
        config=locked.user_paths.config,
        reviewer=LazyReviewer(make_reviewer),
    )


def _open_budget(running: RunContext, folds: RunFolds) -> BudgetService:
    """Open the run's budget, including what earlier parts of the run spent."""
    budget = BudgetService(running, folds.budget.ledger)
    budget.open_budget(running.request.budget, deadline_unix_s=running.deadline_unix_s)
    return budget


def _with_totals(running: RunContext, completed: RunCompleted, seconds: float) -> RunCompleted:
    view = running.broadcast.current_view()
    return msgspec.structs.replace(
        completed,
        usage=view.usage,
        usd=view.usd,
        agents=running.broadcast.agents_seen,
        duration_s=round(seconds, 3),
        redacted=dict(sorted(running.journal.redacted.items())),
        caution=view.caution if completed.result else "",
    )
