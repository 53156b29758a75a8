"""`swarm send --no-wake`: a message from another terminal is read, once, when a turn next may."""

import signal

import pytest
import trio

from swarm.mailbox.protocol.events import TurnStarted
from swarm.mailbox.protocol.items import Message, text_of
from swarm.mailbox.protocol.records import InputPosted, ItemRecorded, MailPosted

pytestmark = pytest.mark.live
LIMIT_S = 30
MAIL = "Leave the tests alone."
HOLD = {
    "name": "exec_command",
    "arguments": {
        "cmd": "until [ -e told ]; do sleep 0.02; done; echo over",
        "yield_time_ms": 9000,
    },
}


async def leave_mail(rig) -> str:
    """Send without waking, from a terminal of its own; what the sender is told."""
    sent = await (await rig.start("send", "--no-wake", rig.run_id, "root", MAIL)).wait_end()
    assert sent.code == 0, sent.err
    return sent.err


def texts(rig, source: str) -> list[ItemRecorded]:
    found = rig.bodies(ItemRecorded, agent="/root")
    return [one for one in found if one.source == source and isinstance(one.item, Message)]


async def test_a_mail_is_read_at_the_next_request_of_a_turn_that_runs(rig):
    provider = rig.script({"calls": [HOLD]}, {"text": "done: {last_output}"})
    with trio.fail_after(LIMIT_S):
        run = await rig.run(provider)
        await rig.wait_call()
        told = await leave_mail(rig)
        assert texts(rig, "mail") == []
        (rig.work / "told").touch()
        ended = await run.wait_end()
    assert "left for /root" in told
    assert ended.code == 0, ended.err
    assert "over" in ended.out
    (posted,) = rig.bodies(MailPosted)
    assert (posted.mail.author, posted.mail.recipient) == ("person", "/root")
    assert not posted.mail.trigger_turn
    (read,) = texts(rig, "mail")
    assert read.item_id == posted.mail.mail_id
    assert MAIL in text_of(read.item.content)
    order = [body.source for body in rig.bodies(ItemRecorded) if body.source != "context"]
    assert order == ["user", "model", "tool", "mail", "model"]
    assert [turn.started_by for turn in rig.bodies(TurnStarted)] == ["user"]


async def test_a_mail_behind_a_shown_answer_starts_no_turn_and_is_read_at_the_next(rig):
    long = {"items": [{"text": "my answer"}, {"text": "more and more " * 400}]}
    slow = {**long, "chunk_chars": 12, "chunk_delay_s": 0.2}
    provider = rig.script(slow, {"text": "next: {last_user}"})
    with trio.fail_after(LIMIT_S):
        run = await rig.run(provider)
        await rig.wait(lambda: texts(rig, "model"))
        await leave_mail(rig)
        run.process.send_signal(signal.SIGINT)
        ended = await run.wait_end()
        assert ended.code == 130, ended.err
        assert len(rig.bodies(MailPosted)) == 1
        assert texts(rig, "mail") == []
        assert len(rig.bodies(TurnStarted)) == 1
        ended = await (await rig.resume("-p", "go on")).wait_end()
    assert ended.code == 0, ended.err
    assert ended.out == "next: go on\n"
    first, second = rig.bodies(TurnStarted)
    assert (first.started_by, second.started_by) == ("user", "user")
    (read,) = texts(rig, "mail")
    assert read.turn_id == second.turn_id
    assert MAIL in text_of(read.item.content)
    assert len(rig.bodies(InputPosted)) == 2  # the person's words alone; the message is none
