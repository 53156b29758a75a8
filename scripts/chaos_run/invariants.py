"""What must be true of every run, whatever befell it: pure functions from facts to violations.

Each looks at one promise, and says in words what broke it. An empty list is all that is wanted.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator

import msgspec
from budget_invariants import budgets_add_up
from chaos_scenario import answer_text, gave_up, planned_calls, script_path
from delivery_invariants import (
    mail_was_read_once,
    person_messages_were_read_once,
    results_arrived_once,
)
from run_evidence import RunEvidence

from swarm.mailbox.base.ids import is_reviewer
from swarm.mailbox.protocol.control import Recorded
from swarm.mailbox.protocol.events import CallBegan, CallEnded
from swarm.mailbox.protocol.items import AnyCall, AnyOutput
from swarm.mailbox.protocol.records import (
    AgentEnded,
    AgentSpawned,
    ApprovalRequested,
    ApprovalResolved,
    ItemRecorded,
    ProcessEnded,
    Record,
    RunCompleted,
    RunStarted,
)
from swarm.supervisor.journal.replay import fold_run
from swarm.supervisor.views.run_state import RunState

Check = Callable[[RunEvidence], Iterator[str]]
_REFUSED = 2  # the exit code of a command that did nothing
_COUNTED = "mcp__counter__"
_CRASHES = 4  # an agent that dies so often is given up, rightly (within a minute; clocks jump)


def violations(facts: RunEvidence) -> list[str]:
    """All that is wrong, each with the promise that it breaks."""
    if facts.vanished:
        checks: tuple[Check, ...] = (it_noticed_that_its_folder_is_gone, nothing_is_left)
        return [f"{check.__name__}: {words}" for check in checks for words in check(facts)]
    checks = (
        the_run_ended, nobody_was_given_up, no_call_ran_twice, calls_have_one_end,
        results_arrived_once, mail_was_read_once, person_messages_were_read_once,
        approvals_were_given, slots_never_leaked, budgets_add_up,
        the_journal_is_whole, it_folds_the_same_twice, nothing_is_left,
    )  # fmt: skip
    return [f"{check.__name__}: {words}" for check in checks for words in check(facts)]


def it_noticed_that_its_folder_is_gone(facts: RunEvidence) -> Iterator[str]:
    """A run whose folder was deleted ends by itself, and says why. A resume may find no run at all,
    where the folder went after the start before had been killed.
    """
    if not facts.ended_in_time or not facts.starts:
        yield "it lives on without its folder"
        return
    last = facts.starts[-1]
    if "Traceback" in last.stderr:
        yield f"it ended with a traceback: {last.stderr.strip()[-300:]}"
    elif len(facts.starts) > 1 and last.code == _REFUSED and "no run" in last.stderr:
        pass
    elif last.code and facts.vanished not in last.stderr and not (last.was_killed or last.ended):
        yield f"it ended with {last.code} and did not name its folder: {last.stderr.strip()[-300:]}"


def bodies_of(facts: RunEvidence, kind: type) -> Iterator[Record]:
    """The records of one kind."""
    return (record for record in facts.records if isinstance(record.body, kind))


def the_run_ended(facts: RunEvidence) -> Iterator[str]:
    """It came to its end in time, with the root's answer, and each start had a reason to end."""
    if not facts.ended_in_time:
        yield "it did not end in time, though nothing was thrown any more"
    for number, start in enumerate(facts.starts):
        if "Traceback" in start.stderr:
            yield f"start {number} ended with a traceback"
        if start.code and not (start.was_killed or start.disk_was_full or start.ended):
            yield f"start {number} ended with {start.code}: {start.stderr.strip()[-300:]}"
    completed = [record.body for record in bodies_of(facts, RunCompleted)]
    last = completed[-1] if completed else None
    wanted = answer_text("/root", 0)
    if facts.ended_in_time and not (
        isinstance(last, RunCompleted) and wanted in (last.result or "")
    ):
        yield f"the root's answer is not the result: {last}"


def nobody_was_given_up(facts: RunEvidence) -> Iterator[str]:
    """Only who died four times is given up, and no planned stays unfulfilled."""
    deaths: dict[str, list[float]] = defaultdict(list)
    for record in facts.records:
        match record.body:
            case ProcessEnded(orderly=False):
                deaths[record.agent].append(record.ts)
            case AgentEnded(state="crashed") if len(deaths[record.agent]) >= _CRASHES:
                pass
            case AgentEnded(cut_off=True):
                pass  # the run was ended, and a resume goes on
            case AgentEnded(state=state, message=message) if state != "completed":
                yield f"{record.agent} ended as {state}: {message[:200]}"
            case AgentEnded(message=message) if gave_up(message):
                yield f"{record.agent} {message[:200]}"
            case _:
                pass


def no_call_ran_twice(facts: RunEvidence) -> Iterator[str]:
    """What a command wrote stands there once, after its begin was journaled, and only then."""
    began = Counter(r.body.call_id for r in facts.records if isinstance(r.body, CallBegan))
    ran = Counter((*facts.sandboxed_calls, *facts.unsandboxed_calls))
    yield from (f"{call} ran {n} times" for call, n in ran.items() if n > _most_runs(call))
    yield from (f"{call} began {n} times" for call, n in began.items() if n > 1)
    yield from (f"{call} ran, but its begin is not journaled" for call in ran if call not in began)
    for record in bodies_of(facts, CallEnded):
        match record.body:
            case CallEnded(call_id=call, tool=tool, status=status, exit_code=code) if (
                tool == "exec_command" or tool.startswith(_COUNTED)
            ):
                succeeded = (status, code) in (("completed", 0), ("completed", None))
                if succeeded and call not in ran:
                    yield f"{call} is said to have run, and did not"
                if status == "declined" and call in ran:
                    yield f"{call} was declined, and ran"
            case _:
                pass


def _most_runs(call: str) -> int:
    """A tool that says that a second call does no harm is called again when its server died."""
    return 2 if call.endswith("-count_again") else 1


def calls_have_one_end(facts: RunEvidence) -> Iterator[str]:
    """A call that began has one end, and the model reads one output of it. An attempt at an item
    that a killed run cut off has no other life in which it could: another attempt begins again."""
    kept = [record for record in facts.records if not _is_attempt(facts, record.agent)]
    began = {r.body.call_id for r in kept if isinstance(r.body, CallBegan)}
    ended = Counter(r.body.call_id for r in kept if isinstance(r.body, CallEnded))
    items = [r.body.item for r in kept if isinstance(r.body, ItemRecorded)]
    asked = Counter(item.call_id for item in items if isinstance(item, AnyCall))
    outputs = Counter(item.call_id for item in items if isinstance(item, AnyOutput))
    yield from (f"{call} ended {n} times" for call, n in ended.items() if n > 1)
    yield from (f"{call} stands in the history {n} times" for call, n in asked.items() if n > 1)
    yield from (f"{call} has {n} outputs" for call, n in outputs.items() if n > 1)
    if facts.ended_in_time:
        yield from (f"{call} has no end" for call in sorted(began - ended.keys()))
        yield from (f"{call} has no output" for call in asked if call not in outputs)


def _is_attempt(facts: RunEvidence, agent: str) -> bool:
    part = facts.play.get(script_path(agent))
    return part is not None and part.is_item


def approvals_were_given(facts: RunEvidence) -> Iterator[str]:
    """What ran outside of the sandbox was allowed, by who could; each question has one answer."""
    allowed = {
        planned.name: planned.allowed
        for part in facts.play.values()
        for planned in planned_calls(part)
    }
    asked: dict[str, ApprovalRequested] = {}
    resolved: Counter[str] = Counter()
    given: set[str] = set()
    for record in facts.records:
        match record.body:
            case ApprovalRequested() as body:
                if body.approval_id in asked:
                    yield f"the number {body.approval_id} was given twice"
                asked[body.approval_id] = body
            case ApprovalResolved(approval_id=number, outcome=outcome, by=by):
                resolved[number] += 1
                request = asked[number].request if number in asked else None
                if request is None:
                    yield f"{number} was answered and never asked"
                    continue
                if outcome == "approved":
                    given.add(request.call_id)
                    if by == "person" and not facts.person_answers.get((number, request.reason)):
                        yield f"{number} counts as approved by a person who never said so"
            case _:
                pass
    yield from (f"{number} has {n} answers" for number, n in resolved.items() if n > 1)
    if facts.ended_in_time:
        yield from (f"{number} was never answered" for number in asked if number not in resolved)
    for call in facts.unsandboxed_calls:
        if call not in given or not allowed.get(call):
            yield f"{call} ran outside of the sandbox without a yes"


def slots_never_leaked(facts: RunEvidence) -> Iterator[str]:
    """Never more processes than slots, none twice, and none when a start has ended in order."""
    live: set[str] = set()
    for record in facts.records:
        match record.body:
            case RunStarted():
                live.clear()  # whoever lived before died with its supervisor
            case AgentSpawned(path=path) if not is_reviewer(path):
                if path in live:
                    yield f"{path} began a life beside its own (record {record.seq})"
                live.add(path)
                if len(live) > facts.max_agents:
                    yield f"{len(live)} processes in {facts.max_agents} slots"
            case ProcessEnded() if not is_reviewer(record.agent):
                if record.agent not in live:
                    yield f"{record.agent} ended and had not begun (record {record.seq})"
                live.discard(record.agent)
            case RunCompleted() if live:
                yield f"the run ended, and {sorted(live)} hold slots"
            case _:
                pass


def the_journal_is_whole(facts: RunEvidence) -> Iterator[str]:
    """Numbers run on without a hole and without a double."""
    numbers = [record.seq for record in facts.records]
    doubles = [number for number, n in Counter(numbers).items() if n > 1]
    if doubles:
        yield f"records {doubles[:5]} are there twice"
    if missing := sorted(set(range(1, max(numbers, default=0))) - set(numbers)):
        yield f"records {missing[:5]} are missing ({len(missing)} in all)"


def it_folds_the_same_twice(facts: RunEvidence) -> Iterator[str]:
    """Two folds of the journal are one state, byte for byte; also one that met it twice."""
    first, second = _fold(facts.records), _fold(facts.records)
    if first != second:
        yield "two folds differ"
    if _fold(facts.records, again=facts.records[-50:]) != first:
        yield "records that are met a second time change the state"
    past = [msgspec.json.encode(fold_run(facts.records)) for _ in range(2)]
    if past[0] != past[1]:
        yield "what a resume knows differs between two folds"


def _fold(records: tuple[Record, ...], again: tuple[Record, ...] = ()) -> bytes:
    state = RunState(clock=lambda: 0.0)
    for record in (*records, *again):
        state.apply(Recorded(record=record))
    return msgspec.json.encode(state.view())


def nothing_is_left(facts: RunEvidence) -> Iterator[str]:
    """No process outlives a start, and no socket and no temporary file the run."""
    for number, start in enumerate(facts.starts):
        yield from (f"start {number} left the process {one}" for one in start.left)
    killed = facts.vanished and any(start.was_killed for start in facts.starts)  # and never resumed
    if facts.ended_in_time and not killed:
        yield from (f"the file {name}" for name in facts.left_files)
