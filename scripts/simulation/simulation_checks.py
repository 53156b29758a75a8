"""What must hold after any seed, read from the journal and from the marks that tools left. Pure
but for reading files. Each check yields sentences, one for each violation.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator

from finding_checks import check_findings
from simulated_scenario import SimulatedScenario
from simulated_tools import SideEffects
from wakeup_checks import check_quiet, check_wake_ups

from swarm.mailbox.protocol.events import CallBegan, CallEnded, TokenCount, Warned
from swarm.mailbox.protocol.gateway import ReservationReleased, ResponseBilled
from swarm.mailbox.protocol.items import TokenUsage
from swarm.mailbox.protocol.records import (
    AgentEnded,
    AgentSpawned,
    ApprovalRequested,
    ApprovalResolved,
    FanOutItemEnded,
    GrantGiven,
    InputPosted,
    ItemRecorded,
    MailHandled,
    MailPosted,
    ProcessEnded,
    Record,
    Reserved,
    RunCompleted,
    RunStarted,
)
from swarm.mailbox.protocol.values.limits import DangerFullAccess, Limits, ReadOnly, WorkspaceWrite
from swarm.supervisor.journal.journal_reader import read_records
from swarm.supervisor.journal.replay import fold_agent, fold_run
from swarm.supervisor.parts.budget.ledger import fold_ledger
from swarm.supervisor.runs.paths import RunPaths

_STRICTNESS = ("untrusted", "on-failure", "on-request")


def check_journal(places: RunPaths, story: SimulatedScenario, completed: RunCompleted) -> list[str]:
    """All that the journal alone can tell."""
    records = sorted(read_records(places), key=lambda record: record.seq)
    return [
        *_numbers(records),
        *_lives(records),
        *_mails(records),
        *check_findings(records),
        *check_wake_ups(records, completed),
        *check_quiet(records),
        *_calls(records),
        *_questions(records),
        *_bills(records, story),
        *_spending(records),
        *_limits(records),
        *_items(records, story, completed),
        *_folds(places),
        *(_all_done(records, story, completed) if story.is_undisturbed else ()),
    ]


def check_side_effects(places: RunPaths, outside: SideEffects) -> list[str]:
    """Nothing ran twice, unjournaled or unapproved."""
    records = sorted(read_records(places), key=lambda record: record.seq)
    began = {one.body.call_id for one in records if isinstance(one.body, CallBegan)}
    runs = Counter(mark.call_id for mark in outside.tool_runs)
    found = [f"{call} ran {count} times" for call, count in runs.items() if count > 1]
    found += [f"{call} ran and never began" for call in runs if call not in began]
    resolved = {
        one.body.approval_id for one in records
        if isinstance(one.body, ApprovalResolved) and one.body.outcome == "approved"
    }  # fmt: skip
    yes = {
        one.body.request.call_id for one in records
        if isinstance(one.body, ApprovalRequested) and one.body.approval_id in resolved
    }  # fmt: skip
    has_grants = any(isinstance(one.body, GrantGiven) for one in records)
    for mark in outside.tool_runs:
        if not mark.approved_by and mark.call_id not in began:
            found.append(f"{mark.call_id} ran without anything")
        if mark.approved_by and not mark.approved_by.endswith(":approved"):
            found.append(f"{mark.call_id} ran by {mark.approved_by}")
        if mark.approved_by.startswith("person") and mark.call_id not in yes:
            found.append(f"{mark.call_id} ran with a yes that the journal does not hold")
        if mark.approved_by.startswith("grant") and not has_grants:
            found.append(f"{mark.call_id} ran by a grant that was never given")
    return found


def _of(records: Iterable[Record], *kinds: type) -> Iterator[Record]:
    return (record for record in records if isinstance(record.body, kinds))


def _numbers(records: list[Record]) -> Iterator[str]:
    numbers = [record.seq for record in records]
    if numbers != list(range(1, len(numbers) + 1)):
        yield f"numbers are not 1 to {len(numbers)}, each once"
    times = [record.ts for record in records]
    if times != sorted(times):
        yield "a later record is older"


def _lives(records: list[Record]) -> Iterator[str]:
    """Every process is started once and ends once; those of a lost supervisor end with it."""
    started = Counter((one.body.agent_id, one.body.epoch) for one in _of(records, AgentSpawned))
    gone = Counter((one.body.agent_id, one.body.epoch) for one in _of(records, ProcessEnded))
    yield from (f"{life} was born {count} times" for life, count in started.items() if count > 1)
    yield from (f"{life} ended {count} times" for life, count in gone.items() if count > 1)
    yield from (f"{life} ended and was never born" for life in gone if life not in started)
    last_start = max(one.seq for one in _of(records, RunStarted))
    for one in _of(records, AgentSpawned):
        life = one.body.agent_id, one.body.epoch
        if one.seq > last_start and life not in gone:
            yield f"{one.body.path} epoch {one.body.epoch} never ended"
    owners: dict[str, set[str]] = defaultdict(set)
    for one in _of(records, AgentSpawned):
        owners[one.body.path].add(one.body.agent_id)
    yield from (f"{path} had {len(ids)} owners" for path, ids in owners.items() if len(ids) > 1)


def _mails(records: list[Record]) -> Iterator[str]:
    """Each mail is posted once and read at most once, by the one it was written to."""
    posted = Counter(one.body.mail.mail_id for one in _of(records, MailPosted))
    yield from (f"letter {name} was posted {count} times" for name, count in posted.items()
                if count > 1)  # fmt: skip
    reader = {one.body.mail.mail_id: one.agent for one in _of(records, MailPosted)}
    read = Counter[str]()
    for one in _of(records, ItemRecorded):
        if one.body.source == "mail":
            read[one.body.item_id] += 1
            if reader.get(one.body.item_id) != one.agent:
                yield f"letter {one.body.item_id} was read by {one.agent}"
    yield from (f"letter {name} was read {count} times" for name, count in read.items()
                if count > 1)  # fmt: skip
    for one in _of(records, MailHandled):
        if one.body.dead and read[one.body.mail_id]:
            yield f"letter {one.body.mail_id} was read and is dead"
    reports: dict[str, int] = defaultdict(int)
    for one in _of(records, MailPosted):
        is_own = not one.body.mail.content.startswith("(killed) a person")  # else it never lived
        reports[one.body.mail.author] += one.body.mail.kind == "final_answer" and is_own
    ends = Counter(one.agent for one in _of(records, AgentEnded))
    for author, count in reports.items():
        if count > ends[author]:
            yield f"{author} ended {ends[author]} times and reported {count} times"


def _calls(records: list[Record]) -> Iterator[str]:
    """A call begins once, ends at most once, and is answered at most once in the history."""
    began = Counter(one.body.call_id for one in _of(records, CallBegan))
    ended = Counter(one.body.call_id for one in _of(records, CallEnded))
    yield from (f"{call} began {count} times" for call, count in began.items() if count > 1)
    yield from (f"{call} ended {count} times" for call, count in ended.items() if count > 1)
    yield from (f"{call} ended and never began" for call in ended if call not in began)
    outputs = Counter(
        (one.agent, one.body.item.call_id) for one in _of(records, ItemRecorded)
        if one.body.source == "tool"
    )  # fmt: skip
    yield from (f"{call} has {count} outputs" for call, count in outputs.items() if count > 1)


def _questions(records: list[Record]) -> Iterator[str]:
    asked = Counter(one.body.approval_id for one in _of(records, ApprovalRequested))
    answered = Counter(one.body.approval_id for one in _of(records, ApprovalResolved))
    yield from (f"question {name} was put {count} times" for name, count in asked.items()
                if count > 1)  # fmt: skip
    yield from (f"question {name} was answered {count} times" for name, count in answered.items()
                if count > 1)  # fmt: skip
    yield from (f"question {name} has no end" for name in asked if name not in answered)
    yield from (f"{name} was answered and not asked" for name in answered if name not in asked)


def _bills(records: list[Record], story: SimulatedScenario) -> Iterator[str]:
    """What was granted is billed once; the books are the sum of the bills."""
    granted = Counter(one.body.reservation for one in _of(records, Reserved))
    billed = Counter(
        one.body.reservation
        for one in _of(records, ResponseBilled, ReservationReleased)
        if one.body.reservation
    )
    for name in granted:
        if billed[name] != 1:
            yield f"reservation {name} was billed {billed[name]} times"
    yield from (f"{name} was billed and not granted" for name in billed
                if name not in granted and story.tokens is not None)  # fmt: skip
    run = [one for one in records if not isinstance(one.body, ItemRecorded)]
    ledger, again = fold_ledger(run), fold_ledger(run)
    spent = ledger.spent("/root")
    if spent != again.spent("/root"):
        yield "two folds of the books differ"
    total = sum(one.body.usage.total_tokens for one in _of(records, ResponseBilled))
    total += sum(one.body.tokens for one in _of(records, ReservationReleased))
    if story.tokens is not None and spent.tokens != total:
        yield f"the books say {spent.tokens} tokens, the bills {total}"
    if ledger.held:
        yield f"still held: {sorted(ledger.held)}"


def _spending(records: list[Record]) -> Iterator[str]:
    """A later life begins with what the earlier ones used and paid."""
    owner = {one.body.path: one.body.agent_id for one in _of(records, AgentSpawned)}
    used: dict[str, TokenUsage] = {}
    paid: dict[str, float] = defaultdict(float)
    for one in records:
        match one.body:
            case AgentSpawned(agent_id=agent_id, epoch=epoch, usage=usage, usd=usd):
                life = f"{one.body.path} epoch {epoch}"
                if usage != used.get(agent_id, TokenUsage()):
                    yield f"{life} began with {usage}, not {used.get(agent_id)}"
                if abs((usd or 0.0) - paid[agent_id]) > 1e-9:
                    yield f"{life} began with ${usd}, not ${paid[agent_id]}"
            case TokenCount(total=total):
                used[owner[one.agent]] = total
            case ResponseBilled(agent_id=agent_id, usd=usd) if one.agent:
                paid[agent_id] += usd or 0.0
            case _:
                pass


def _limits(records: list[Record]) -> Iterator[str]:
    """No child has more rights than its parent."""
    of_path: dict[str, Limits] = {}
    for one in _of(records, AgentSpawned):
        of_path.setdefault(one.body.path, one.body.limits)
        if of_path[one.body.path] != one.body.limits:
            yield f"{one.body.path} has other limits in a later life"
        parent = of_path.get(one.body.parent or "")
        if parent is not None and not _is_within(one.body.limits, parent):
            yield f"{one.body.path} may do more than {one.body.parent}"


def _is_within(child: Limits, parent: Limits) -> bool:
    order = (ReadOnly, WorkspaceWrite, DangerFullAccess)
    rank = {kind: place for place, kind in enumerate(order)}
    if rank[type(child.sandbox)] > rank[type(parent.sandbox)]:
        return False
    order_of = {name: place for place, name in enumerate(_STRICTNESS)}
    if order_of.get(child.approval, 0) > order_of.get(parent.approval, 9):
        return False
    same = child.reviewer == parent.reviewer and child.max_depth <= parent.max_depth
    bound = parent.deadline_unix_s
    return same and (bound is None or (child.deadline_unix_s or 0) <= bound)


def _items(
    records: list[Record], story: SimulatedScenario, completed: RunCompleted
) -> Iterator[str]:
    """Each item of a fan-out ends once with an answer."""
    ends = Counter(one.body.index for one in _of(records, FanOutItemEnded)
                   if one.body.state == "completed")  # fmt: skip
    yield from (f"item {n} has {count} answers" for n, count in ends.items() if count > 1)
    if completed.status == "completed" and story.is_undisturbed:
        yield from (f"item {n} has no answer" for n in range(len(story.items)) if n not in ends)


def _folds(places: RunPaths) -> Iterator[str]:
    """Folded twice, the journal says the same twice."""
    if fold_run(read_records(places, file="run")) != fold_run(read_records(places, file="run")):
        yield "two folds of the run differ"
    for file in sorted(places.journal.glob("*.jsonl")):
        if file.stem == "run":
            continue
        first = fold_agent(read_records(places, file=file.stem))
        if first != fold_agent(read_records(places, file=file.stem)):
            yield f"two folds of {file.stem} differ"


def _all_done(
    records: list[Record], story: SimulatedScenario, completed: RunCompleted
) -> Iterator[str]:
    """Nobody meddled: every agent of the story did its part, and the root says so."""
    if completed.status != "completed":
        yield f"the run ended as {completed.status}: {completed.message[:300]}"
        return
    if completed.result != "/root is done":
        yield f"the root's result is {completed.result!r}"
    read = {one.body.item_id for one in _of(records, ItemRecorded)}
    unborn = {one.agent for one in _of(records, Warned) if "never started" in one.body.message}
    for one in _of(records, InputPosted):
        if one.body.parts and one.body.input_id not in read and one.agent not in unborn:
            yield f"{one.agent} never read what it was told: {one.body.parts}"
    last: dict[str, AgentEnded] = {}
    for one in _of(records, AgentEnded):
        last[one.agent] = one.body
    closed = {f"{path}/{planned.target}" for path, part in story.parts.items()
              for response in part.responses for planned in response
              if planned.verb == "close"}  # fmt: skip
    for path in story.parts:
        if path.startswith("/root/item_") or any(
            path == top or path.startswith(f"{top}/") for top in closed
        ):
            continue
        end = last.get(path)
        if end is None:
            yield f"{path} has no end"
        elif (end.state, end.message) != ("completed", f"{path} is done"):
            yield f"{path} ended as {end.state}: {end.message[:200]}"
