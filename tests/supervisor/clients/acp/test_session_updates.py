"""What an editor sees of a run's events."""

from acp.schema import AgentMessageChunk, ToolCallProgress, ToolCallStart

from swarm.mailbox.protocol.control import Recorded, TransientEvent
from swarm.mailbox.protocol.events import TextArrived
from swarm.mailbox.protocol.items import Message, OutputText
from swarm.mailbox.protocol.records import AgentEnded, AgentSpawned, ItemRecorded, Record
from swarm.supervisor.clients.acp.session_updates import SessionUpdates


def recorded(body, agent="/root"):
    return Recorded(record=Record(seq=1, ts=0.0, body=body, agent=agent))


def spawned(epoch, path="/root/scout"):
    return recorded(AgentSpawned(agent_id="a", path=path, epoch=epoch, pid=1), path)


ENDED = recorded(AgentEnded(agent_id="a", state="completed", message="seen"), "/root/scout")


def test_text_that_was_streamed_is_not_shown_again():
    updates = SessionUpdates("/p")
    (part,) = updates.apply(
        TransientEvent(agent="/root", event=TextArrived(turn_id="t", item_id="i", delta="He"))
    )
    whole = Message(role="assistant", content=(OutputText(text="Hello"),))
    (rest,) = updates.apply(
        recorded(ItemRecorded(turn_id="t", item=whole, item_id="i", source="model"))
    )
    assert isinstance(part, AgentMessageChunk)
    assert isinstance(rest, AgentMessageChunk)
    assert (part.content.text, rest.content.text) == ("He", "llo")


def test_an_agent_is_one_tool_call_over_restarts_and_when_it_works_again():
    updates = SessionUpdates("/p")
    (begun,) = updates.apply(spawned(1))
    assert updates.apply(spawned(2)) == []  # its process was restarted
    (ended,) = updates.apply(ENDED)
    (again,) = updates.apply(spawned(3))
    assert isinstance(begun, ToolCallStart)
    assert isinstance(ended, ToolCallProgress)
    assert isinstance(again, ToolCallProgress)
    assert begun.tool_call_id == ended.tool_call_id == again.tool_call_id
    assert (ended.status, again.status) == ("completed", "in_progress")


def test_the_root_and_reviewers_are_no_tool_calls():
    updates = SessionUpdates("/p")
    assert updates.apply(spawned(1, "/root")) == []
    assert updates.apply(spawned(1, "/guardian")) == []
