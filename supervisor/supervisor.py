"""One run, from beginning to end: opens everything in order, closes it in reverse.

Order: the folder's lock, the post, the journal, the household, then the tasks (ear, gateway,
vigil, doorman, view), then the work. The work's end, a signal or a broken part ends the rest.
"""

import shutil
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from functools import partial
from typing import NamedTuple, Protocol

import msgspec
import trio

from swarm.mailbox.errors import UsageError
from swarm.mailbox.ids import RunId
from swarm.mailbox.protocol.base import SCHEMA_VERSION
from swarm.mailbox.protocol.events import Warned
from swarm.mailbox.protocol.records import RunCompleted, RunStarted
from swarm.mailbox.redact import NOT_HIDDEN, Redactor, unhidden_keys
from swarm.mailbox.remove_tree import remove_tree

from .about import (
    About,
    hold_run,
    never_began,
    on_network_disk,
    read_about,
    save_request,
    write_about,
)
from .agency.agency import Agency, run_agency
from .agents import Bound, LiveAgent
from .approvals.base import AutoReviewer, LateReviewer
from .approvals.grants import Grants
from .approvals.queue import Known, Queue, open_queue
from .blame import blame
from .budget.fold import fold_ledger
from .budget.hours import Hours
from .budget.treasury import Treasury
from .console.reduce import RunState
from .control import Control
from .descriptors import bound_by_descriptors
from .dispatch import Dispatch
from .doorman import Doorman
from .ending import Ending, Signals, hear_signals
from .folder_watch import watch_folders, write_owner
from .ignition import Ignition
from .journal.files import repair_tail
from .journal.reading import BadLine, last_seq, run_records
from .journal.replay import RunPast, fold_run
from .journal.rollout import open_journal
from .keeper import Keeper
from .network.keeper import ProxyKeeper
from .places import Places, RunPlaces, make_private, run_places
from .registry import AgentRegistry
from .request import RunRequest
from .running import Running
from .showing import Showing
from .surroundings import OUTSIDE, Surroundings
from .version import VERSION
from .view import View
from .vigil import keep_vigil
from .waiting import WaitingRoom
from .work import Work, network_warning

_MOST_BAD_TOLD = 20  # of the journal's bad lines, one warning each
_SOCKET_PATH_BYTES = 100  # the kernel's limit is 107
_EPOCHS_A_LIFE = 1_000  # of the gateway; so a resumed run never reuses one


class Doer(Protocol):
    """What a run is for: the task it was given, or something else that needs its processes."""

    async def run(self) -> RunCompleted: ...

    def close(self) -> None:
        """Called once every agent has ended."""


MakeWork = Callable[[Running, Control, Agency, Keeper, Ending, RunPast], Doer]


async def run_to_its_end(
    request: RunRequest,
    view: View,
    ignition: Ignition,
    places: Places,
    work: MakeWork = Work,
    around: Surroundings = OUTSIDE,
) -> RunCompleted:
    """Run, or resume when `request.resumes`. Returns when every process of the run has ended.

    What the run came to is a value, also a provider's refusal or an interruption. Raises
    UsageError before anything was started (a second resume, an older version), and SwarmError
    when the journal or the state folder cannot be written.
    """
    here = run_places(places, request.run_id or around.chances.new_id())
    if request.resumes:
        read_about(here)  # refuses what is no run, or of another version
    try:
        async with trio.open_nursery() as nursery:
            signals: Signals = await nursery.start(hear_signals)
            with hold_run(here) as lock_fd:
                try:
                    held = _Held(here, places, ignition, work, around, signals, lock_fd)
                    completed = await _run_held(request, view, held)
                finally:
                    shutil.rmtree(here.sockets, ignore_errors=True)
                    if never_began(here):  # then no run is left to be listed
                        with suppress(OSError):
                            remove_tree(here.folder)
            nursery.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        if (fault := blame(group)) is not None:
            raise fault from None
        raise
    if request.ephemeral:
        with suppress(OSError):
            remove_tree(here.folder)
    view.finish(completed)
    return completed


class _Held(NamedTuple):
    """A run's folder, held, and what the run is made of."""

    here: RunPlaces
    places: Places
    ignition: Ignition
    work: MakeWork
    around: Surroundings
    signals: Signals  # heard before anything is made, so that all is cleared away
    lock_fd: int


async def _run_held(request: RunRequest, view: View, held: _Held) -> RunCompleted:
    here = held.here
    past = _prepare(request, here)
    write_owner(here, held.lock_fd)
    started = trio.current_time()
    async with AsyncExitStack() as stack:
        running = await _open_all(stack, request, view, held, past)
        about = _begin(running, past)
        completed = await _live(running, past, held, view)
        await running.journal.settle()  # what it hid until now is counted
        completed = _with_totals(running, completed, trio.current_time() - started)
        record = await running.commit(completed)
        assert isinstance(record.body, RunCompleted)
        completed = record.body  # as it was written: without any secret
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
    write_about(here, after)
    return completed


def _prepare(request: RunRequest, here: RunPlaces) -> RunPast:
    """Make the folders; read what a resumed run has behind it."""
    if len(here.gateway(_EPOCHS_A_LIFE)) > _SOCKET_PATH_BYTES:
        raise UsageError(f"{here.sockets} is too long for a socket; set XDG_RUNTIME_DIR or TMPDIR")
    for folder in (here.journal, here.blobs, here.tmp, here.sockets.parent, here.sockets):
        make_private(folder)
    save_request(here, request)  # also of a resume: a raised bound stays raised
    if not request.resumes:
        return RunPast()
    for file in here.journal.glob("*.jsonl"):
        repair_tail(file)  # a line torn by a power loss would end up in the middle
    bad: list[BadLine] = []
    past = fold_run(run_records(here, bad.append))
    past.bad_lines = tuple(str(line) for line in bad)
    past.last_seq = last_seq(here)
    return past


async def _open_all(
    stack: AsyncExitStack,
    request: RunRequest,
    view: View,
    held: _Held,
    past: RunPast,
) -> Running:
    here, around = held.here, held.around
    office = await stack.enter_async_context(around.open_post(here.post))
    feed = await stack.enter_async_context(around.open_feed(here.feed))
    journal = await stack.enter_async_context(
        open_journal(
            here,
            last_seq=past.last_seq,
            redactor=Redactor(request.keys.values()),
            unix_s=around.chances.unix_s,
        )
    )
    household = await stack.enter_async_context(around.open_home(held.ignition))
    most, bound = bound_by_descriptors(request.max_agents)
    registry = AgentRegistry(most, bound=bound)
    return Running(
        run_id=RunId(here.folder.name),
        run_key=around.chances.entropy(32),
        request=request,
        places=here,
        office=office,
        journal=journal,
        showing=Showing(RunState(slots_max=most), view, feed, redactor=journal.redactor),
        household=household,
        registry=registry,
        room=WaitingRoom(registry),
        grants=Grants(),
        chances=around.chances,
        began_s=around.chances.unix_s(),
    )


def _begin(running: Running, past: RunPast) -> About:
    """The first record, and `run.json`."""
    request = running.request
    title = next((line.strip("# ") for line in request.prompt.splitlines() if line.strip()), "")
    title = running.journal.redactor.clean(title)[:80]  # before it is cut: half a key is one too
    running.showing.remember(run_records(running.places) if past.started else ())
    record = running.note(
        RunStarted(
            run_id=running.run_id,
            task=request.task,
            title=title,
            cwd=request.cwd,
            version=VERSION,
            resumed=past.started is not None,
            widened=request.widened,
        )
    )
    unhidden = [f"{name} {NOT_HIDDEN}" for name in unhidden_keys(request.keys)]
    warnings = [*past.bad_lines[:_MOST_BAD_TOLD], *unhidden, running.registry.bound]
    for warning in filter(None, warnings):
        running.note(Warned(message=warning))
    about = About(
        schema_version=SCHEMA_VERSION,
        run_id=running.run_id,
        title=title,
        task=running.journal.redactor.clean(request.task),
        cwd=request.cwd,
        pid=running.chances.pid(),
        started=past.started_ts or record.ts,
        version=VERSION,
    )
    write_about(running.places, about)
    return about


async def _live(running: Running, past: RunPast, held: _Held, view: View) -> RunCompleted:
    """Everything that runs beside the work, and the work."""
    bound = Bound(epoch=past.starts * _EPOCHS_A_LIFE)
    treasury = _open_treasury(running, past)
    keeper = Keeper(running, bound, treasury, models_dir=str(held.places.models))
    async with trio.open_nursery() as nursery:
        control = Control(running, nursery, bound)
        keeper.path_of = control.path_of

        def live() -> list[LiveAgent]:
            return list(control.agents.values())

        def on_gone(agent: LiveAgent) -> None:
            treasury.forget_agent(agent)
            nursery.start_soon(keeper.forget_agent, agent.plan.agent_id, agent.epoch)

        control.on_gone, treasury.live_agents = on_gone, live
        control.admit = treasury.admit
        nursery.start_soon(treasury.run)
        hours = Hours(control, live, treasury.tell, unix_s=running.chances.unix_s)
        nursery.start_soon(hours.keep)
        agency: Agency = await nursery.start(run_agency, running, control)
        agency.gate.model = lambda: keeper.model
        ending = Ending(control, nursery)
        queue = _open_queue(running, control, agency, nursery, held.places)
        ear = Dispatch(running, control, keeper, agency, queue.desk, nursery)
        proxy = ear.proxy = ProxyKeeper(running, nursery, queue.broker, first_epoch=bound.epoch)
        proxy.life = control.agents.get
        nursery.start_soon(proxy.keep)
        nursery.start_soon(ear.run)
        held.signals.obey_by(ending.obey)
        nursery.start_soon(watch_folders, running.places, held.lock_fd)
        nursery.start_soon(keep_vigil, running, control, keeper)
        nursery.start_soon(proxy.watch)
        nursery.start_soon(view.draw, running.showing.current)
        if (kind := on_network_disk(running.places.folder)) is not None:
            running.note(network_warning(str(running.places.folder), kind))
        async with held.around.open_control(running.places.control) as server:
            door = Doorman(running, control, agency, server, ending.stop_by_kill)
            door.answers, door.keeping = queue.answers, ear.keeping
            nursery.start_soon(door.serve)
            await keeper.start(first=True)
            nursery.start_soon(keeper.keep, live)
            ear.keeping.watching.expect(running.request)
            await proxy.wait_trusted()
            work = held.work(running, control, agency, keeper, ending, past)
            completed = await work.run()
            control.end_of_run.has_begun = True  # whoever is still at work goes on with a resume
            agency.close()
            proxy.let_go()
            end_gateway = partial(keeper.end, grace_s=2.0)
            await ending.carry_out(end_gateway, partial(running.household.close, grace_s=0.0))
            work.close()
            await ear.keeping.watching.finish()
            nursery.cancel_scope.cancel()
    return completed


def _open_queue(
    running: Running, control: Control, agency: Agency, nursery: trio.Nursery, places: Places
) -> Queue:
    """Where everything that needs a yes is asked."""
    known = Known(plan=agency.plan_of, life=control.agents.get, lives=control.agents.values)
    resumed = running.request.resumes
    queue = open_queue(running, nursery, known, config=places.config, resumed=resumed)

    def make_reviewer() -> AutoReviewer:
        from .guardian.reviewer import make_guardian  # milliseconds that a start need not wait for

        return make_guardian(running, control, nursery, agency.plan_of)

    queue.broker.reviewer = LateReviewer(make_reviewer)
    return queue


def _open_treasury(running: Running, past: RunPast) -> Treasury:
    """The books of the run, with what an earlier part of it spent."""
    records = run_records(running.places) if past.starts else ()
    treasury = Treasury(running, fold_ledger(records))
    request = running.request
    deadline = None if request.deadline_s is None else running.chances.unix_s() + request.deadline_s
    treasury.open_books(request.budget, deadline_unix_s=deadline)
    return treasury


def _with_totals(running: Running, completed: RunCompleted, seconds: float) -> RunCompleted:
    view = running.showing.current()
    return msgspec.structs.replace(
        completed,
        usage=view.usage,
        usd=view.usd,
        agents=running.showing.state.agents_seen,
        duration_s=round(seconds, 3),
        redacted=dict(sorted(running.journal.redacted.items())),
    )
