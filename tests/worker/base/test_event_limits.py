"""What is too large for a mailbox is cut or refused in words, and the agent lives on."""

import msgspec
import pytest
import trio

from swarm.mailbox.delivery.envelope import MAX_MESSAGE_BYTES
from swarm.mailbox.delivery.pair import open_pair_server
from swarm.mailbox.protocol.changes import FileChange
from swarm.mailbox.protocol.events import (
    CallBegan,
    CallEnded,
    CommandCall,
    ContextReplaced,
    ItemCompleted,
    OtherCall,
    PatchCall,
    StdinCall,
    TurnCompleted,
    TurnFailed,
    Warned,
    decode_event,
    encode_event,
)
from swarm.mailbox.protocol.items import (
    Compaction,
    CustomToolCall,
    FunctionCall,
    FunctionCallOutput,
    InputImage,
    InputText,
    Message,
    Reasoning,
    encode_item,
    text_message,
)
from swarm.mailbox.protocol.ops import Compact, RollBackTurns, UndoCompaction, encode_op
from swarm.worker.agent.context.conversation_history import ConversationHistory
from swarm.worker.base.event_limits import MOST_ITEM_BYTES, fit_event
from swarm.worker.base.reporter import Reporter
from swarm.worker.testing.agent_harness import END, done, open_agent_harness
from swarm.worker.testing.fake_tools import FAKE_AGENT_SPEC

LARGE = "ä" * (MAX_MESSAGE_BYTES // 2 + 1)
DIFF = FileChange(path="/p", kind="delete", unified_diff=LARGE)
FINAL = (done(text_message("assistant", "done")), END)
UNDO = UndoCompaction(compaction_id="a", base_count=0, base_digest=b"", items=())


def began(detail):
    return CallBegan(turn_id="t", call_id="c", tool="tool", detail=detail)


EVENTS = [
    began(CommandCall(script=LARGE, argv=("sh", "-c", LARGE), cwd="/")),
    began(StdinCall(session_id=1, chars=LARGE)),
    began(PatchCall(changes=(DIFF, DIFF))),
    began(PatchCall(changes=(FileChange(path="/long" * 9, kind="add"),) * 400_000)),
    began(OtherCall(argument=LARGE)),
    CallEnded(turn_id="t", call_id="c", tool="tool", status="completed", changes=(DIFF,)),
    CallEnded(turn_id="t", call_id="c", tool="tool", status="failed", output=LARGE),
    TurnCompleted(turn_id="t", last_message=LARGE),
    TurnFailed(turn_id="t", kind="other", message=LARGE),
    Warned(message=LARGE),
]


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_an_event_that_is_cut_stays_the_event_of_its_call_or_turn(event):
    assert len(encode_event(event)) > MAX_MESSAGE_BYTES
    body = fit_event(event)
    assert len(body) <= MAX_MESSAGE_BYTES
    told = decode_event(body)
    assert type(told) is type(event)
    for name in ("turn_id", "call_id", "tool", "status", "kind"):
        assert getattr(told, name, None) == getattr(event, name, None)


def test_what_fits_is_told_as_it_is():
    event = began(StdinCall(session_id=1, chars="x" * (MAX_MESSAGE_BYTES - 200)))
    assert fit_event(event) == encode_event(event)


async def test_an_event_that_no_mailbox_takes_ends_no_agent_and_those_behind_it_arrive(
    autojump_clock,
):
    raw = msgspec.Raw(encode_item(text_message("user", LARGE)))
    async with open_pair_server() as server, trio.open_nursery() as nursery:
        server.admit(b"a", epoch=1)
        reporter = Reporter(server.connect(b"a", epoch=1))
        nursery.start_soon(reporter.run_outbox)
        ticket = reporter.emit_tracked(began(PatchCall(changes=(DIFF,))))
        reporter.emit(ItemCompleted(turn_id="t", item=raw, item_id="i"))
        reporter.emit(Warned(message="behind"))
        heard = []
        while len(heard) < 3:
            message = await server.receive()
            heard.append(decode_event(message.body))
            server.acknowledge(message)
        with trio.fail_after(5):
            await reporter.wait_journaled(ticket)
        nursery.cancel_scope.cancel()
    assert heard[0].call_id == "c"
    assert "ItemCompleted" in heard[1].message
    assert "left out" in heard[1].message
    assert heard[2].message == "behind"


ITEMS = [
    text_message("user", LARGE),
    Message(role="user", content=(InputText(text="look"), InputImage(image_url=LARGE))),
    FunctionCall(call_id="c", name="n", arguments=LARGE),
    CustomToolCall(call_id="c", name="n", input=LARGE),
    FunctionCallOutput(call_id="c", output=LARGE),
    FunctionCallOutput(call_id="c", output=(InputText(text=LARGE), InputText(text="b"))),
    Reasoning(content=(LARGE,)),
    Compaction(encrypted_content=LARGE),
]


@pytest.mark.parametrize("item", ITEMS, ids=lambda item: type(item).__name__)
def test_an_item_joins_the_history_as_the_supervisor_can_be_told_of_it(item):
    history = ConversationHistory()
    raw = history.append(item)
    assert len(bytes(raw)) <= MOST_ITEM_BYTES
    event = ItemCompleted(turn_id="t", item=raw, item_id="i")
    assert fit_event(event) == encode_event(event)
    assert history.all_items() == (raw,)
    kept = msgspec.msgpack.decode(bytes(raw))
    assert kept.get("call_id") == getattr(item, "call_id", None)


async def test_turns_are_not_taken_back_to_a_history_that_cannot_be_told(autojump_clock):
    texts = [text_message("user", "x" * (MAX_MESSAGE_BYTES // 2)), text_message("user", "")]
    room = MAX_MESSAGE_BYTES - len(encode_op(RollBackTurns(turns=1, items=as_raw(texts))))
    items = as_raw([texts[0], text_message("user", "y" * (room - 4))])
    async with open_agent_harness(FAKE_AGENT_SPEC, [FINAL, FINAL]) as play:
        await play.supervisor.send_text("first")
        await play.supervisor.wait_turns()
        before = play.supervisor.items()
        order = RollBackTurns(turns=1, items=items)
        assert MAX_MESSAGE_BYTES - 64 < len(encode_op(order)) <= MAX_MESSAGE_BYTES
        await play.supervisor.send_op(order)
        warned = await play.supervisor.wait_for(Warned)
        await play.supervisor.send_text("second", input_id="turn-2")
        await play.supervisor.wait_turns(2)
    assert "no turn was taken back: a message of " in warned.message
    assert play.supervisor.events_of(ContextReplaced) == []
    assert list(play.gateway.inputs[-1])[: len(before)] == before


@pytest.mark.parametrize("order", [Compact(), UNDO])
async def test_a_history_that_cannot_be_told_is_not_exchanged_for_another(
    autojump_clock, monkeypatch, order
):
    monkeypatch.setattr("swarm.worker.agent.state.agent_state.MAX_MESSAGE_BYTES", 64)
    replies = [FINAL, *[FINAL] * isinstance(order, Compact), FINAL]
    async with open_agent_harness(FAKE_AGENT_SPEC, replies) as play:
        await play.supervisor.send_text("first")
        await play.supervisor.wait_turns()
        before = play.supervisor.items()
        await play.supervisor.send_op(order)
        warned = await play.supervisor.wait_for(Warned)
        await play.supervisor.send_text("second", input_id="turn-2")
        await play.supervisor.wait_turns(2)
        last = play.gateway.inputs[-1]
    assert "is over the limit of 64" in warned.message
    assert play.supervisor.events_of(ContextReplaced) == []
    assert list(last) == [*before, text_message("user", "second")]


def as_raw(items):
    return tuple(msgspec.Raw(encode_item(item)) for item in items)
