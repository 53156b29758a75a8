"""A call waits for the end of the turn that it asked about, and for no other."""

from swarm.mailbox.base.ids import ROOT_PATH
from swarm.mailbox.protocol.control import Recorded
from swarm.mailbox.protocol.events import TurnCompleted
from swarm.mailbox.protocol.items import Message
from swarm.mailbox.protocol.records import (
    AnyRecordBody,
    InputPosted,
    ItemRecorded,
    Record,
    RunCompleted,
)
from swarm.supervisor.clients.mcp_server.turn_progress import AwaitedTurn, TurnProgress


def turn(input_id: str, answer: str) -> list[AnyRecordBody]:
    item = Message(role="user", content=())
    return [
        InputPosted(input_id=input_id, parts=()),
        ItemRecorded(turn_id=f"t{input_id}", item=item, item_id=input_id, source="user"),
        TurnCompleted(turn_id=f"t{input_id}", last_message=answer),
    ]


def progress(awaited: AwaitedTurn, *bodies: AnyRecordBody, newest: int) -> TurnProgress:
    folded = TurnProgress(awaited, newest)
    for seq, body in enumerate(bodies, start=1):
        agent = "" if isinstance(body, RunCompleted) else ROOT_PATH
        folded.apply(Recorded(record=Record(seq=seq, ts=0.0, body=body, agent=agent)))
    return folded


TWO = [*turn("a", "first"), *turn("b", "second")]


def answer_of(folded: TurnProgress) -> str | None:
    return None if folded.turn is None else folded.turn.text


def test_the_newest_turn_counts_once_the_past_is_read():
    assert answer_of(progress(AwaitedTurn(), *TWO[:3], newest=6)) is None
    assert answer_of(progress(AwaitedTurn(), *TWO[:5], newest=3)) is None
    assert answer_of(progress(AwaitedTurn(), *TWO, newest=6)) == "second"


def test_the_turn_of_one_input_counts_whatever_follows():
    assert answer_of(progress(AwaitedTurn(input_id="a"), *TWO, newest=6)) == "first"
    assert answer_of(progress(AwaitedTurn(input_id="c"), *TWO, newest=6)) is None


def test_a_resumed_run_answers_with_a_turn_behind_its_resume():
    assert answer_of(progress(AwaitedTurn(after_seq=3), *TWO[:3], newest=3)) is None
    assert answer_of(progress(AwaitedTurn(after_seq=3), *TWO, newest=6)) == "second"


def test_the_end_of_the_run_is_the_end_of_the_wait():
    ended = progress(AwaitedTurn(), RunCompleted(status="failed", message="no key"), newest=0)
    ended.end()
    assert (ended.turn and ended.turn.status, answer_of(ended)) == ("failed", "no key")
    killed = progress(AwaitedTurn(), newest=0)
    killed.end()
    assert "was killed" in (answer_of(killed) or "")
