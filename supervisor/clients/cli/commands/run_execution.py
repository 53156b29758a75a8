"""Executes a complete request: start early, run, show, write the result, notify, exit code.

The request was checked before. `start_early` must come before Trio, a thread or Rich.
"""

import gc
import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import msgspec

from swarm.mailbox.base.errors import SwarmError, UsageError
from swarm.mailbox.base.held_programs import held_process_environment
from swarm.mailbox.base.ids import new_uuid7
from swarm.mailbox.protocol.control import AnyFeed, RunView
from swarm.mailbox.protocol.records import RunCompleted

from ....base.exception_groups import first_error
from ....base.part_names import PART_EXIT_CODES
from ....base.run_display import RunDisplay
from ....parts.part_setup import after_run
from ....processes.early_start import EarlyProcesses, start_early
from ....request.run_places import exposure_of, program_lookup
from ....request.run_request import RunRequest
from ....runs.paths import UserPaths, paths_of_run
from ....runs.result_file import ResultFile
from ....runs.run_status import ANSWERED
from ...console.line_spool import OutputLost
from ...console.terminal import choose_display, is_terminal
from ..base.early_processes import close_early_processes, take_early_processes
from ..base.printing import say
from ..base.require_sandbox import check_installation, check_required_sandbox
from ..base.run_notifier import RunNotifier, TurnNotifier, open_notifier, open_turn_notifier
from ..run_setup.options import ShowOptions

EXIT_CODES = {
    "completed": 0,
    "truncated": 1,
    "failed": 1,
    "refused": 3,
    "budget": 4,
    "deadline": 4,
    "provider": 5,
    "sandbox": 6,
    **PART_EXIT_CODES,
    "partial": 8,
    "interrupted": 130,
    "terminated": 143,
}


def start_run(request: RunRequest, show: ShowOptions, places: UserPaths) -> int:
    """Run to the end and return the exit code; with `--detach`, return once the run has started."""
    check_required_sandbox(request.require_sandbox)
    if request.require_sandbox:
        exposure = exposure_of(request.sandbox, request.cwd, request.add_dirs)
        check_installation(request.require_sandbox, exposure)
    request = _in_unicode(request)
    if request.run_id is None:
        request = msgspec.structs.replace(request, run_id=new_uuid7())
    if not show.detach:
        return run_in_process(request, show, places)
    from .detach import detach

    close_early_processes()  # they would be children of this process, not of the run
    start = partial(run_in_process, request, show, places)
    return detach(request, places, start)


def _in_unicode(request: RunRequest) -> RunRequest:
    """Remove environment variables that no message can carry, with a warning. Raises UsageError for
    any other such text, without repeating it: it may be a secret.
    """
    sound = {name: value for name, value in request.environment.items() if _is_sound(name + value)}
    if left := sorted(request.environment.keys() - sound.keys()):
        names = ", ".join(name.encode(errors="replace").decode() for name in left)
        text = f"not UTF-8, so agents and commands do not get these variables: {names}"
        say(f"warning: {text}")
        request = msgspec.structs.replace(request, environment=sound)
    try:
        msgspec.msgpack.encode(request)
    except UnicodeEncodeError:
        raise UsageError(
            f"the {_unsound_field(request)} of this run is not valid UTF-8; name folders and "
            "files, and write texts, in UTF-8"
        ) from None
    return request


def _unsound_field(struct: msgspec.Struct) -> str:
    """The name of the field that holds such text; of an inner struct's where there is one."""
    for name in struct.__struct_fields__:
        value: object = getattr(struct, name)
        try:
            msgspec.msgpack.encode(value)
        except UnicodeEncodeError:
            return _unsound_field(value) if isinstance(value, msgspec.Struct) else name
    return "text"


def _is_sound(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def run_in_process(
    request: RunRequest,
    show: ShowOptions,
    places: UserPaths,
    on_started: Callable[[], None] | None = None,
) -> int:
    """Run in this process, whose own search paths lead to no folder that agents write.

    Arguments and errors as of `_run_in_process`.
    """
    with held_process_environment(program_lookup(request)):
        return _run_in_process(request, show, places, on_started)


def _run_in_process(
    request: RunRequest,
    show: ShowOptions,
    places: UserPaths,
    on_started: Callable[[], None] | None,
) -> int:
    """Run in this process.

    Args:
        request: With its keys; the environment of this process no longer has them.
        show: How it is shown, and what happens with the result.
        places: The user's folders.
        on_started: Called at the first feed.

    Raises:
        SwarmError: The run could not start, or its journal could not be written.
    """
    processes = take_early_processes()
    if not isinstance(processes, EarlyProcesses):
        processes = start_early(secrets=tuple(request.keys.values()))
    try:
        processes.complete(deadline_s=request.deadline_s)
        target = _result_file(show)
        import trio  # already imported by `start_early`

        from ....run import run_to_end

        notifier = open_notifier(show.notify, request)
        display = _open_display(show, request, places)
        turn_notifier = open_turn_notifier(request)
        view = _NotifyingDisplay(display, on_started, notifier, turn_notifier)
        gc.freeze()  # all modules are imported
        gc.enable()
        try:
            completed = trio.run(run_to_end, request, view, processes, places)
        except BaseExceptionGroup as group:
            error = first_error(group, (SwarmError, KeyboardInterrupt))
            if error is None:
                raise
            _finish_json_lines(view, show, error)
            raise error from group
        except SwarmError as error:
            _finish_json_lines(view, show, error)
            raise
    finally:
        processes.close()
    _write_answer(target, completed)
    if notifier is not None:
        notifier.finish(completed)
    view.raise_lost()
    if completed.status in ANSWERED and not show.as_json:
        _ask_to_merge(request, places)
    after_run(request, places)
    return EXIT_CODES[completed.status]


def _ask_to_merge(request: RunRequest, places: UserPaths) -> None:
    assert request.run_id is not None
    here = paths_of_run(places, request.run_id)
    if request.copies.merge == "ask" and here.copies.is_dir():  # few runs have copies
        from .end_merge_question import ask_to_merge

        ask_to_merge(here)


def _finish_json_lines(view: "_NotifyingDisplay", show: ShowOptions, error: BaseException) -> None:
    """End the JSON lines with `run.completed` in every case."""
    if show.as_json and view.started and not view.finished:
        view.finish(RunCompleted(status="failed", message=str(error)))


def _open_display(show: ShowOptions, request: RunRequest, places: UserPaths) -> RunDisplay:
    kind = choose_display(
        as_json=show.as_json,
        plain=show.plain,
        stdout_is_tty=is_terminal(sys.stdout) and is_terminal(sys.stderr),
        environment=os.environ,
    )
    if kind == "json":
        from ...serve.exec_json import ExecJsonDisplay

        if not show.as_codex:
            return ExecJsonDisplay(sys.stdout)
        from ...serve.codex_lines import CodexLines

        return ExecJsonDisplay(sys.stdout, render=CodexLines())
    from ..base.outcome_facts import find_outcome

    assert request.run_id is not None  # `start_run` sets it
    here = paths_of_run(places, request.run_id)
    if kind == "plain":
        from ...console.plain_display import PlainDisplay

        return PlainDisplay(sys.stderr, sys.stdout, find_outcome=partial(find_outcome, here))
    from .live_controls import make_live_display

    asks_person = request.approvals.reviewer == "person"
    return make_live_display(here, color=show.color, watches=False, asks_person=asks_person)


class _NotifyingDisplay:
    """Wraps a display, reports the run's start and passes the feed to the notifiers."""

    def __init__(
        self,
        view: RunDisplay,
        on_started: Callable[[], None] | None,
        notifier: RunNotifier | None,
        turn_notifier: TurnNotifier | None,
    ) -> None:
        self._view, self._on_started = view, on_started
        self._notifier, self._turn_notifier = notifier, turn_notifier
        self.started = self.finished = False
        self._lost: OutputLost | None = None

    def on_feed(self, feed: AnyFeed) -> None:
        if not self.started:
            self.started = True
            if self._on_started is not None:
                self._on_started()
        self._view.on_feed(feed)
        if self._turn_notifier is not None:
            self._turn_notifier.on_feed(feed)
        if self._notifier is not None:
            self._notifier.on_feed(feed)

    async def draw(self, current: Callable[[], RunView]) -> None:
        if self._notifier is None:
            await self._view.draw(current)
        else:
            await self._notifier.run_beside(self._view.draw, current)

    def raise_lost(self) -> None:
        """Raise OutputLost if the last lines could not be written; all else has its result."""
        if self._lost is not None:
            raise self._lost

    def finish(self, completed: RunCompleted) -> None:
        self.finished = True
        try:
            self._view.finish(completed)
        except OutputLost as error:
            self._lost = error


def _result_file(show: ShowOptions) -> ResultFile | None:
    """Open `-o` early, before a command of the run could replace its folder by a link."""
    if show.output_last_message is None:
        return None
    return ResultFile(Path(show.output_last_message))


def _write_answer(target: ResultFile | None, completed: RunCompleted) -> None:
    """`-o`: write the whole answer, only after success; an empty answer causes a warning."""
    if target is None or completed.status not in ANSWERED:
        return
    if not completed.result:
        say("warning: there is no final answer; the file is empty")
    target.write(completed.result or "")
