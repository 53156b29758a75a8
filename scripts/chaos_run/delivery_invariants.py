"""Whether what was said arrived, once: answers, mails, a person's words. Pure."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator

from chaos_scenario import answer_text, script_path
from run_evidence import RunEvidence

from swarm.mailbox.base.ids import is_reviewer
from swarm.mailbox.protocol.items import AnyItem, AnyOutput, Message, text_of
from swarm.mailbox.protocol.ops import TextInput
from swarm.mailbox.protocol.records import (
    AgentEnded,
    AgentSpawned,
    FanOutItemEnded,
    InputPosted,
    ItemRecorded,
    MailHandled,
    MailPosted,
)

_PERSON_MESSAGE = re.compile(r"\[\[word \d+\]\]")


def results_arrived_once(facts: RunEvidence) -> Iterator[str]:
    """Each end of work is one mail to the parent; its answer is heard by who needed it."""
    told: dict[str, str] = defaultdict(str)
    ends: Counter[tuple[str, str]] = Counter()
    mails: Counter[tuple[str, str]] = Counter()
    done: Counter[str] = Counter()
    started = set[str]()
    reporting = {path for path, part in facts.play.items() if not part.is_item} - {"/root"}
    for record in facts.records:
        match record.body:
            case AgentSpawned(path=path):
                started.add(path)
            case FanOutItemEnded(state="completed", item=name):
                done[f"/root/{name}"] += 1
            case AgentEnded(state="completed", message=message) if record.agent in reporting:
                ends[record.agent, message] += 1
            case MailPosted(mail=mail) if mail.kind == "final_answer":
                mails[mail.author, mail.content] += 1
            case ItemRecorded(item=item):
                told[record.agent] += _words(item)
            case _:
                pass
    if facts.ended_in_time:
        for end in ends | mails:
            if ends[end] != mails[end] and not end[1].startswith("("):
                yield f"{end} ended {ends[end]} times, and was told {mails[end]} times"
    for path, part in facts.play.items():
        answer, parent = answer_text(path, 0), path.rpartition("/")[0]
        if facts.ended_in_time and part.is_item:
            if done[path] != 1 or answer not in told["/root"]:
                yield f"the item {path} was done {done[path]} times"
            continue
        if facts.ended_in_time and parent and answer in told[path] and answer not in told[parent]:
            yield f"{answer} was said, and {parent} never heard it"
        if path in started and answer_text(parent, 0) in told[parent] and answer not in told[path]:
            yield f"{parent} ended without {answer}"


def mail_was_read_once(facts: RunEvidence) -> Iterator[str]:
    """A mail is posted once and taken up once: read, brought by a wait, or said to be dead. One
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
        if facts.ended_in_time and not taken[mail_id] and not words.startswith("person "):
            yield f"never taken up: {words}"


def person_messages_were_read_once(facts: RunEvidence) -> Iterator[str]:
    """What a person said stands once in the history of whom it was said to; if that was an attempt
    at an item that was cut off, the next one hears it. Who stood in line for its first life may
    never have had one."""
    heard: Counter[tuple[str, str]] = Counter()
    started, early = set[str](), set[tuple[str, str]]()
    for record in facts.records:
        match record.body:
            case AgentSpawned(path=path):
                started.add(path)
            case InputPosted(parts=parts, source="person") if record.agent not in started:
                text = "".join(part.text for part in parts if isinstance(part, TextInput))
                early.update((record.agent, word) for word in _PERSON_MESSAGE.findall(text))
            case ItemRecorded(source="user" | "mail", item=item) if not is_reviewer(record.agent):
                path = script_path(record.agent)
                heard.update((path, word) for word in _PERSON_MESSAGE.findall(_words(item)))
            case _:
                pass
    yield from (f"{path} heard {word} {n} times" for (path, word), n in heard.items() if n > 1)
    if facts.ended_in_time:
        for word, path in facts.person_messages.items():
            if not heard[script_path(path), word] and (path, word) not in early:
                yield f"{path} never heard {word}"


def _words(item: AnyItem) -> str:
    if isinstance(item, Message):
        return text_of(item.content)
    return text_of(item.output) if isinstance(item, AnyOutput) else ""
