"""What must be true of every run, whatever befell it: pure functions from facts to violations.

Each looks at one promise, and says in words what broke it. An empty list is all that is wanted.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator

import msgspec
from facts import Facts
from plot import answer_of, gave_up, wishes_of

from swarm.mailbox.ids import is_reviewer
from swarm.mailbox.protocol.control import Recorded
from swarm.mailbox.protocol.events import CallBegan, CallEnded
from swarm.mailbox.protocol.items import (
    AnyCall,
    AnyItem,
    AnyOutput,
    Message,
    text_of,
)
from swarm.mailbox.protocol.ops import TextInput
from swarm.mailbox.protocol.records import (
    AgentEnded,
    AgentSpawned,
    ApprovalRequested,
    ApprovalResolved,
    FanOutItemEnded,
    InputPosted,
    ItemRecorded,
    MailHandled,
    MailPosted,
    ProcessEnded,
    Record,
    RunCompleted,
    RunStarted,
)
from swarm.supervisor.console.reduce import RunState
from swarm.supervisor.journal.replay import fold_run

_WORD = re.compile(r"\[\[word \d+\]\]")
Check = Callable[[Facts], Iterator[str]]
_CRASHES = 4  # an agent that dies so often is given up, rightly (within a minute; clocks jump)


def violations(facts: Facts) -> list[str]:
    """All that is wrong, each with the promise that it breaks."""
    from accounts import budgets_add_up

    checks: tuple[Check, ...] = (
        the_run_ended, nobody_was_given_up, no_call_ran_twice, calls_have_one_end,
        results_arrived_once, letters_were_read_once, words_were_heard_once,
        approvals_were_given, slots_never_leaked, budgets_add_up,
        the_journal_is_whole, it_folds_the_same_twice, nothing_is_left,
    )  # fmt: skip
    return [f"{check.__name__}: {words}" for check in checks for words in check(facts)]


def bodies_of(facts: Facts, kind: type) -> Iterator[Record]:
    """The records of one kind."""
    return (record for record in facts.records if isinstance(record.body, kind))


def _words(item: AnyItem) -> str:
    if isinstance(item, Message):
        return text_of(item.content)
    return text_of(item.output) if isinstance(item, AnyOutput) else ""


def the_run_ended(facts: Facts) -> Iterator[str]:
    """It came to its end in time, with the root's answer, and each start had a reason to end."""
    if not facts.in_time:
        yield "it did not end in time, though nothing was thrown any more"
    for number, start in enumerate(facts.starts):
        if "Traceback" in start.said:
            yield f"start {number} ended with a traceback"
        if start.code and not (start.lost or start.filled):
            yield f"start {number} ended with {start.code}: {start.said.strip()[-300:]}"
    completed = [record.body for record in bodies_of(facts, RunCompleted)]
    last = completed[-1] if completed else None
    wanted = answer_of("/root", 0)
    if facts.in_time and not (isinstance(last, RunCompleted) and wanted in (last.result or "")):
        yield f"the root's answer is not the result: {last}"


def nobody_was_given_up(facts: Facts) -> Iterator[str]:
    """Only who died four times is given up, and no wish stays unfulfilled."""
    deaths: dict[str, list[float]] = defaultdict(list)
    for record in facts.records:
        match record.body:
            case ProcessEnded(orderly=False):
                deaths[record.agent].append(record.ts)
            case AgentEnded(state="crashed") if len(deaths[record.agent]) >= _CRASHES:
                pass
            case AgentEnded(state=state, message=message) if state != "completed":
                yield f"{record.agent} ended as {state}: {message[:200]}"
            case AgentEnded(message=message) if gave_up(message):
                yield f"{record.agent} {message[:200]}"
            case _:
                pass


def no_call_ran_twice(facts: Facts) -> Iterator[str]:
    """What a command wrote stands there once, after its begin was journaled, and only then."""
    began = Counter(r.body.call_id for r in facts.records if isinstance(r.body, CallBegan))
    ran = Counter((*facts.effects, *facts.outside))
    yield from (f"{call} ran {n} times" for call, n in ran.items() if n > 1)
    yield from (f"{call} began {n} times" for call, n in began.items() if n > 1)
    yield from (f"{call} ran, but its begin is not journaled" for call in ran if call not in began)
    for record in bodies_of(facts, CallEnded):
        match record.body:
            case CallEnded(call_id=call, tool="exec_command", status=status, exit_code=code):
                if (status, code) == ("completed", 0) and call not in ran:
                    yield f"{call} is said to have run, and did not"
                if status == "declined" and call in ran:
                    yield f"{call} was declined, and ran"
            case _:
                pass


def calls_have_one_end(facts: Facts) -> Iterator[str]:
    """A call that began has one end, and the model reads one output of it. An attempt at an item
    that a killed run cut off has no other life in which it could: another attempt begins anew."""
    kept = [record for record in facts.records if not _is_attempt(facts, record.agent)]
    began = {r.body.call_id for r in kept if isinstance(r.body, CallBegan)}
    ended = Counter(r.body.call_id for r in kept if isinstance(r.body, CallEnded))
    items = [r.body.item for r in kept if isinstance(r.body, ItemRecorded)]
    asked = Counter(item.call_id for item in items if isinstance(item, AnyCall))
    outputs = Counter(item.call_id for item in items if isinstance(item, AnyOutput))
    yield from (f"{call} ended {n} times" for call, n in ended.items() if n > 1)
    yield from (f"{call} stands in the history {n} times" for call, n in asked.items() if n > 1)
    yield from (f"{call} has {n} outputs" for call, n in outputs.items() if n > 1)
    if facts.in_time:
        yield from (f"{call} has no end" for call in sorted(began - ended.keys()))
        yield from (f"{call} has no output" for call in asked if call not in outputs)


def _is_attempt(facts: Facts, agent: str) -> bool:
    part = facts.play.get(agent.partition("_try")[0])
    return part is not None and part.is_item


def results_arrived_once(facts: Facts) -> Iterator[str]:
    """Each end of work is one letter to the parent; its answer is heard by who needed it."""
    told: dict[str, str] = defaultdict(str)
    ends: Counter[tuple[str, str]] = Counter()
    letters: Counter[tuple[str, str]] = Counter()
    done: Counter[str] = Counter()
    born = set[str]()
    reporting = {path for path, part in facts.play.items() if not part.is_item} - {"/root"}
    for record in facts.records:
        match record.body:
            case AgentSpawned(path=path):
                born.add(path)
            case FanOutItemEnded(state="completed", item=name):
                done[f"/root/{name}"] += 1
            case AgentEnded(state="completed", message=message) if record.agent in reporting:
                ends[record.agent, message] += 1
            case MailPosted(mail=mail) if mail.kind == "final_answer":
                letters[mail.author, mail.content] += 1
            case ItemRecorded(item=item):
                told[record.agent] += _words(item)
            case _:
                pass
    if facts.in_time:
        for end in ends | letters:
            if ends[end] != letters[end] and not end[1].startswith("("):
                yield f"{end} ended {ends[end]} times, and was told {letters[end]} times"
    for path, part in facts.play.items():
        answer, parent = answer_of(path, 0), path.rpartition("/")[0]
        if facts.in_time and part.is_item:
            if done[path] != 1 or answer not in told["/root"]:
                yield f"the item {path} was done {done[path]} times"
            continue
        if facts.in_time and parent and answer in told[path] and answer not in told[parent]:
            yield f"{answer} was said, and {parent} never heard it"
        if path in born and answer_of(parent, 0) in told[parent] and answer not in told[path]:
            yield f"{parent} ended without {answer}"


def letters_were_read_once(facts: Facts) -> Iterator[str]:
    """A letter is posted once and taken up once: read, brought by a wait, or said to be dead. One
    that a person leaves wakes nobody: it may lie there when all is over."""
    posted: dict[str, str] = {}
    taken: Counter[str] = Counter()
    dead: dict[str, str] = {}
    sent: Counter[str] = Counter()
    for record in facts.records:
        match record.body:
            case MailPosted(mail=mail):
                if mail.mail_id in posted:
                    yield f"letter {mail.mail_id} was posted twice"
                posted[mail.mail_id] = f"{mail.author} to {mail.recipient}: {mail.content[:80]}"
                sent[mail.content] += "[[letter" in mail.content
            case MailHandled(mail_id=mail_id, dead=True, reason=reason):
                dead[mail_id] = reason
                taken[mail_id] += 1
            case MailHandled(mail_id=mail_id):
                taken[mail_id] += 1
            case ItemRecorded(source="mail", item_id=mail_id):
                taken[mail_id] += 1
            case _:
                pass
    yield from (f"{words} was sent {n} times" for words, n in sent.items() if n > 1)
    for mail_id, words in posted.items():
        if taken[mail_id] > 1:
            yield f"taken up {taken[mail_id]} times: {words}"
        if facts.in_time and not taken[mail_id] and not words.startswith("person "):
            yield f"never taken up: {words}"


def words_were_heard_once(facts: Facts) -> Iterator[str]:
    """What a person said stands once in the history of whom it was said to. Who stood in line for
    its first life may never have had one."""
    heard: Counter[tuple[str, str]] = Counter()
    born, early = set[str](), set[tuple[str, str]]()
    for record in facts.records:
        match record.body:
            case AgentSpawned(path=path):
                born.add(path)
            case InputPosted(parts=parts, source="person") if record.agent not in born:
                text = "".join(part.text for part in parts if isinstance(part, TextInput))
                early.update((record.agent, word) for word in _WORD.findall(text))
            case ItemRecorded(source="user" | "mail", item=item):
                heard.update((record.agent, word) for word in _WORD.findall(_words(item)))
            case _:
                pass
    yield from (f"{path} heard {word} {n} times" for (path, word), n in heard.items() if n > 1)
    if facts.in_time:
        for word, path in facts.words.items():
            if not heard[path, word] and (path, word) not in early:
                yield f"{path} never heard {word}"


def approvals_were_given(facts: Facts) -> Iterator[str]:
    """What ran outside of the sandbox was allowed, by who could; each question has one answer."""
    allowed = {wish.name: wish.allowed for part in facts.play.values() for wish in wishes_of(part)}
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
                    if by == "person" and not facts.said.get((number, request.reason)):
                        yield f"{number} counts as approved by a person who never said so"
            case _:
                pass
    yield from (f"{number} has {n} answers" for number, n in resolved.items() if n > 1)
    if facts.in_time:
        yield from (f"{number} was never answered" for number in asked if number not in resolved)
    for call in facts.outside:
        if call not in given or not allowed.get(call):
            yield f"{call} ran outside of the sandbox without a yes"


def slots_never_leaked(facts: Facts) -> Iterator[str]:
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


def the_journal_is_whole(facts: Facts) -> Iterator[str]:
    """Numbers run on without a hole and without a double."""
    numbers = [record.seq for record in facts.records]
    doubles = [number for number, n in Counter(numbers).items() if n > 1]
    if doubles:
        yield f"records {doubles[:5]} are there twice"
    if missing := sorted(set(range(1, max(numbers, default=0))) - set(numbers)):
        yield f"records {missing[:5]} are missing ({len(missing)} in all)"


def it_folds_the_same_twice(facts: Facts) -> Iterator[str]:
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


def nothing_is_left(facts: Facts) -> Iterator[str]:
    """No process outlives a start, and no socket and no temporary file the run."""
    for number, start in enumerate(facts.starts):
        yield from (f"start {number} left the process {one}" for one in start.left)
    if facts.in_time:
        yield from (f"the file {name}" for name in facts.left_files)
