"""A history that grows too long becomes shorter, keeps what it must, and the turn goes on."""

from itertools import pairwise

import msgspec
import pytest
import trio

from support.nested_fields import with_fields
from swarm.mailbox.contents.context_markers import STATE_START, SUMMARY_START, is_person_message
from swarm.mailbox.protocol.events import (
    ContextReplaced,
    TokenCount,
    TurnAborted,
    TurnCompleted,
    TurnFailed,
    Warned,
)
from swarm.mailbox.protocol.items import (
    FunctionCall,
    FunctionCallOutput,
    Message,
    TokenUsage,
    decode_item,
    text_message,
    text_of,
)
from swarm.mailbox.protocol.ops import Compact, Interrupt, UndoCompaction
from swarm.mailbox.protocol.requests import ChangesReply
from swarm.mailbox.protocol.sampling import SampleCompleted, chain_digest
from swarm.mailbox.protocol.spec import ContextRules
from swarm.worker.agent.context.pinned_state import state_in_item
from swarm.worker.testing.agent_harness import END, FAKE_MODEL, done, failed, open_agent_harness
from swarm.worker.testing.fake_tools import FAKE_AGENT_SPEC, FakeTool

LIMITED = with_fields(FAKE_AGENT_SPEC, context=ContextRules(compact_tokens=20_000))
PLAN = (
    '{"plan":[{"step":"\\u00e4 \\"look\\"","status":"completed"},'
    '{"step":"mend","status":"pending"}]}'
)
OVER = failed("context_window_exceeded", message="too long")


def used(tokens):
    usage = TokenUsage(input_tokens=tokens - 10, output_tokens=10, total_tokens=tokens)
    return SampleCompleted(request_id=0, usage=usage)


def call(name="look", call_id="c", arguments="{}"):
    return FunctionCall(call_id=call_id, name=name, arguments=arguments)


def says(text):
    return done(text_message("assistant", text))


def texts(items):
    return [text_of(item.content) for item in items if isinstance(item, Message)]


def play_with(replies, *, spec=LIMITED, tools=(), model=FAKE_MODEL):
    return open_agent_harness(spec, replies, tools=(FakeTool("look"), *tools), model=model)


async def test_a_turn_over_its_limit_is_compacted_between_two_requests_and_goes_on(autojump_clock):
    replies = [
        (says("I look."), done(call()), used(25_000)),
        (says("I looked."), used(25_100)),
        (says("all done"), used(900)),
    ]
    async with play_with(replies) as play:
        await play.supervisor.send_text("first user msg")
        ending = await play.supervisor.wait_turns()
        events = play.supervisor.events
        before, asking, after = play.gateway.inputs
        requests = play.gateway.requests
    assert isinstance(ending, TurnCompleted)
    assert ending.last_message == "all done"
    assert ending.usage.total_tokens == 25_000 + 25_100 + 900
    whole = (*before, *asking[len(before) : -1])
    assert asking[: len(whole)] == whole  # the cache of the beginning is of use
    assert isinstance(asking[-2], FunctionCallOutput)
    assert requests[1].tools == requests[0].tools
    assert after[:2] == before[:2]  # permissions, then environment
    assert texts(after)[2] == "first user msg"
    assert texts(after)[3].startswith(SUMMARY_START)
    assert "I looked." in texts(after)[3]
    assert len(after) == 4
    (replaced,) = [event for event in events if isinstance(event, ContextReplaced)]
    assert replaced.shortened.trigger == "limit"
    assert replaced.shortened.means == "model"
    assert replaced.shortened.before_tokens > 25_000
    assert tuple(decode_item(raw) for raw in replaced.items) == after


async def test_what_fills_the_window_is_told_after_a_compaction(autojump_clock):
    replies = [(done(call()), used(25_000)), (says("sum"), used(50)), (says("ok"), used(900))]
    async with play_with(replies) as play:
        await play.supervisor.send_text("go")
        await play.supervisor.wait_turns()
        counts = play.supervisor.events_of(TokenCount)
        shortened = play.supervisor.events_of(ContextReplaced)[0].shortened
    assert [count.context_tokens for count in counts][:2] == [25_000, shortened.after_tokens]


async def test_the_plan_changed_files_and_the_task_survive_two_compactions_word_for_word(
    autojump_clock,
):
    class Patch(FakeTool):
        async def run(self, verdict, listen):
            outcome = await super().run(verdict, listen)
            text = "Success. Updated the following files:\nA new ä.py\nM old.py\n"
            return msgspec.structs.replace(outcome, content=text)

    replies = [
        (done(call("update_plan", "p", PLAN)), done(call("apply_patch", "q")), used(25_000)),
        (says("first summary"), used(25_100)),
        (done(call()), used(25_000)),
        (says("second summary"), used(25_100)),
        (says("done"), used(900)),
    ]
    tools = (FakeTool("update_plan"), Patch("apply_patch"))
    async with play_with(replies, tools=tools) as play:
        await play.supervisor.send_text("the   task,\nword for word")
        await play.supervisor.wait_turns()
        last = play.gateway.inputs[-1]
    assert "the   task,\nword for word" in texts(last)
    (state,) = [state for item in last if (state := state_in_item(item)) is not None]
    assert [(step.step, step.status) for step in state.plan] == [
        ('ä "look"', "completed"), ("mend", "pending"),
    ]  # fmt: skip
    assert state.changed_files == ("A new ä.py", "M old.py")
    assert sum(STATE_START in text for text in texts(last)) == 1
    assert "second summary" in texts(last)[-1]
    assert "first summary" not in texts(last)[-1]


async def test_files_that_commands_changed_survive_compactions_as_those_of_patches_do(
    autojump_clock,
):
    class Patch(FakeTool):
        async def run(self, verdict, listen):
            outcome = await super().run(verdict, listen)
            text = "Success. Updated the following files:\nM ./src/../old.py\n"
            return msgspec.structs.replace(outcome, content=text)

    replies = [
        (done(call("apply_patch", "q")), used(25_000)), (says("sum"), used(25_100)),
        (done(call()), used(25_000)), (says("sum"), used(25_100)),
        (says("done"), used(900)),
    ]  # fmt: skip
    async with play_with(replies, tools=(Patch("apply_patch"),)) as play:
        play.supervisor.changes = ChangesReply(
            files=("M old.py", "A by/sed"), perhaps=("M old.py", "D /shared"), more=3
        )
        await play.supervisor.send_text("go")
        await play.supervisor.wait_turns()
        last = play.gateway.inputs[-1]
    (state,) = [state for item in last if (state := state_in_item(item)) is not None]
    assert state.changed_files == ("M ./src/../old.py", "A by/sed")
    assert state.perhaps_changed == ("D /shared",)
    assert state.more_changed_files == 3


async def test_a_supervisor_that_does_not_tell_what_changed_holds_no_compaction_up(autojump_clock):
    replies = [(done(call()), used(25_000)), (says("sum"), used(50)), (says("ok"), used(900))]
    async with play_with(replies) as play:
        play.supervisor.changes = None
        began = trio.current_time()
        await play.supervisor.send_text("go")
        assert isinstance(await play.supervisor.wait_turns(), TurnCompleted)
        assert 5 <= trio.current_time() - began < 6


async def test_what_is_said_meanwhile_comes_behind_the_summary(autojump_clock):
    replies = [(done(call()), used(25_000)), (2.0, says("sum"), used(50)), (says("ok"), used(900))]
    async with play_with(replies) as play:
        await play.supervisor.send_text("go")
        await trio.sleep(1)
        await play.supervisor.send_text("and this too", input_id="steer")
        await play.supervisor.wait_turns()
        last = play.gateway.inputs[-1]
    assert texts(last)[-1] == "and this too"
    assert texts(last)[-2].startswith(SUMMARY_START)


async def test_a_turn_that_begins_over_the_limit_is_compacted_before_its_words(autojump_clock):
    replies = [(says("one"), used(19_990)), (says("sum"), used(50)), (says("two"), used(900))]
    async with play_with(replies) as play:
        await play.supervisor.send_text("go")
        await play.supervisor.wait_turns()
        # Counted before it is recorded.
        await play.supervisor.send_text("x" * 400, input_id="turn-2")
        await play.supervisor.wait_turns(2)
        last = play.gateway.inputs[-1]
    assert texts(last)[-1] == "x" * 400
    assert texts(last)[-2].startswith(SUMMARY_START)


async def test_an_overflow_is_compacted_and_the_turn_goes_on(autojump_clock):
    replies = [
        *((says("word " * 800), done(call(call_id=f"c{n}")), END) for n in range(6)),
        (OVER,),
        (says("the summary"), END),
        (says("done"), END),
    ]
    async with play_with(replies, spec=FAKE_AGENT_SPEC) as play:
        await play.supervisor.send_text("go")
        ending = await play.supervisor.wait_turns()
        refused, asking, last = play.gateway.inputs[-3:]
        replaced = play.supervisor.events_of(ContextReplaced)
    assert isinstance(ending, TurnCompleted)
    assert len(asking) < len(refused)  # the whole would be refused as well
    assert "the summary" in texts(last)[-1]
    assert [one.shortened.trigger for one in replaced] == ["overflow"]


async def test_a_window_that_the_provider_names_is_obeyed_from_then_on(autojump_clock):
    over = msgspec.structs.replace(OVER, window_tokens=9_000)
    replies = [
        *((says("word " * 800), done(call(call_id=f"c{n}")), END) for n in range(6)),
        (over,),
        (says("the summary"), END),
        (done(call(call_id="late")), used(8_150)),  # beyond 90 % of what was named
        (says("the second summary"), END),
        (says("done"), END),
    ]
    async with play_with(replies, spec=FAKE_AGENT_SPEC) as play:
        await play.supervisor.send_text("go")
        ending = await play.supervisor.wait_turns()
        replaced = play.supervisor.events_of(ContextReplaced)
        warnings = [one.message for one in play.supervisor.events_of(Warned)]
    assert isinstance(ending, TurnCompleted)
    assert [one.shortened.trigger for one in replaced] == ["overflow", "limit"]
    (warning,) = [text for text in warnings if "its window has 9,000 tokens" in text]
    assert "is compacted at 8,100" in warning


async def test_a_window_too_full_to_be_summarized_is_cut_without_a_model(autojump_clock):
    replies = [
        *((says("word " * 800), done(call(call_id=f"c{n}")), END) for n in range(6)),
        (OVER,),
        *[(OVER,)] * 3,  # and so is every copy
        (says("done"), END),
    ]
    async with play_with(replies, spec=FAKE_AGENT_SPEC) as play:
        await play.supervisor.send_text("the task")
        ending = await play.supervisor.wait_turns()
        last = play.gateway.inputs[-1]
        (replaced,) = play.supervisor.events_of(ContextReplaced)
        warnings = [one.message for one in play.supervisor.events_of(Warned)]
    assert isinstance(ending, TurnCompleted)
    assert replaced.shortened.means == "cut"
    assert replaced.shortened.after_tokens < replaced.shortened.before_tokens
    assert "the task" in texts(last)
    assert any("cut and not summarized" in text for text in warnings)


@pytest.mark.parametrize(
    "nothing", [(END,), (says("  "), END), (done(call("look", "zz")), END)], ids=repr
)
async def test_a_summary_that_is_none_is_asked_for_once_more_and_then_done_without(
    autojump_clock, nothing
):
    look = FakeTool("look")
    replies = [
        (says("word " * 4_000), done(call()), used(25_000)), nothing, nothing, (says("ok"), END),
    ]  # fmt: skip
    async with open_agent_harness(LIMITED, replies, tools=(look,)) as play:
        await play.supervisor.send_text("go " * 800)
        ending = await play.supervisor.wait_turns()
        replaced = play.supervisor.events_of(ContextReplaced)
        inputs = play.gateway.inputs
    assert isinstance(ending, TurnCompleted)
    assert [one.shortened.means for one in replaced] == ["cut"]
    assert len(look.runs) == 1  # what a model calls when it is asked for a summary is not run
    assert text_of(inputs[2][-1].content) != text_of(inputs[1][-1].content)


async def test_a_provider_in_trouble_fails_the_turn_and_the_history_stays(autojump_clock):
    trouble = failed("unauthorized", message="bad key")
    async with play_with([(done(call()), used(25_000)), (trouble,)]) as play:
        await play.supervisor.send_text("go")
        ending = await play.supervisor.wait_turns()
        assert play.supervisor.events_of(ContextReplaced) == []
    assert (type(ending), ending.kind, ending.message) == (TurnFailed, "unauthorized", "bad key")


async def test_an_interrupt_during_a_compaction_leaves_the_history_as_it_was(autojump_clock):
    replies = [(done(call()), used(25_000)), (60.0, says("sum"), END), (says("sum"), END)]
    async with play_with([*replies, (says("on"), END)]) as play:
        await play.supervisor.send_text("go")
        await trio.sleep(5)
        await play.supervisor.send_op(Interrupt())
        assert isinstance(await play.supervisor.wait_turns(), TurnAborted)
        assert play.supervisor.events_of(ContextReplaced) == []
        await play.supervisor.send_text("go on", input_id="turn-2")
        await play.supervisor.wait_turns(2)
        first, _, asking, last = play.gateway.inputs
    assert asking[: len(first)] == first
    assert texts(last)[-1] == "go on"


async def test_a_summary_as_large_as_the_window_is_cut(autojump_clock):
    replies = [(done(call()), used(25_000)), (says("word " * 40_000), END), (says("ok"), END)]
    async with play_with(replies) as play:
        await play.supervisor.send_text("go")
        ending = await play.supervisor.wait_turns()
        last = play.gateway.inputs[-1]
    assert isinstance(ending, TurnCompleted)
    summary = texts(last)[-1]
    assert "tokens truncated" in summary
    assert len(summary) < 24_000


async def test_what_frees_nothing_is_not_done_again_before_the_history_has_grown(autojump_clock):
    spec = with_fields(LIMITED, context=ContextRules(compact_tokens=300))
    task = "word " * 400
    replies = [(done(call(call_id=f"c{n}")), END) for n in range(1)]
    replies += [(says("sum"), END)]
    replies += [(done(call(call_id=f"d{n}")), END) for n in range(3)]
    replies += [(says("done"), END)]
    async with play_with(replies, spec=spec) as play:
        await play.supervisor.send_text(task)
        ending = await play.supervisor.wait_turns()
        replaced = play.supervisor.events_of(ContextReplaced)
        warnings = [one.message for one in play.supervisor.events_of(Warned)]
    assert isinstance(ending, TurnCompleted)
    assert len(replaced) == 1
    assert sum("over the limit of 300" in text for text in warnings) == 1


async def test_what_never_fits_ends_the_turn_with_a_clear_error(autojump_clock):
    replies = [(says("hm"), done(call()), END), *[(OVER,)] * 20]
    async with play_with(replies, spec=FAKE_AGENT_SPEC) as play:
        await play.supervisor.send_text("a task")
        ending = await play.supervisor.wait_turns()
        asked = len(play.gateway.inputs)
    assert (type(ending), ending.kind) == (TurnFailed, "context_window_exceeded")
    assert "larger window" in ending.message
    assert asked < 10


MAYBE = msgspec.structs.replace(failed("bad_request", message="length"), may_be_too_long=True)
LONG = [(says("word " * 800), done(call(call_id=f"c{n}")), END) for n in range(6)]


async def test_a_refusal_in_unknown_words_about_a_size_is_met_by_one_compaction(autojump_clock):
    replies = [*LONG, (MAYBE,), (says("sum"), END), (says("ok"), END)]
    async with play_with(replies, spec=FAKE_AGENT_SPEC) as play:
        await play.supervisor.send_text("a task")
        ending = await play.supervisor.wait_turns()
        replaced = play.supervisor.events_of(ContextReplaced)
    assert (type(ending), len(replaced)) == (TurnCompleted, 1)


async def test_a_refusal_that_stays_is_not_taken_for_a_full_window_again(autojump_clock):
    replies = [*LONG, (MAYBE,), (says("sum"), END), *[(MAYBE,)] * 20]
    async with play_with(replies, spec=FAKE_AGENT_SPEC) as play:
        await play.supervisor.send_text("a task")
        ending = await play.supervisor.wait_turns()
        asked = len(play.gateway.inputs)
    assert (type(ending), ending.kind, ending.message) == (TurnFailed, "bad_request", "length")
    assert asked == 6 + 3  # the refusal, a summary, the request once more


async def test_a_person_has_an_idle_agents_history_compacted_and_takes_it_back(autojump_clock):
    replies = [(says("one"), END), (says("sum"), END), (says("two"), END)]
    async with play_with(replies, spec=FAKE_AGENT_SPEC) as play:
        await play.supervisor.send_text("go")
        await play.supervisor.wait_turns()
        before = play.supervisor.items()
        await play.supervisor.send_op(Compact())
        done_ = await play.supervisor.wait_for(ContextReplaced)
        digest = b""
        for raw in done_.items:
            digest = chain_digest(digest, raw)
        undo = UndoCompaction(
            compaction_id=done_.shortened.compaction_id, base_count=len(done_.items),
            base_digest=digest, items=tuple(msgspec.Raw(msgspec.msgpack.encode(i)) for i in before),
        )  # fmt: skip
        await play.supervisor.send_op(undo)
        undone = await play.supervisor.wait_for(ContextReplaced, 2)
        await play.supervisor.send_op(undo)  # twice is once
        warned = await play.supervisor.wait_for(Warned)
        await play.supervisor.send_text("next", input_id="turn-2")
        await play.supervisor.wait_turns(2)
        last = play.gateway.inputs[-1]
    assert (done_.shortened.trigger, done_.turn_id) == ("person", "")
    assert undone.undoes == done_.shortened.compaction_id
    assert "replaced since" in warned.message
    assert list(last) == [*before, text_message("user", "next")]


async def test_between_a_compaction_and_the_next_every_request_extends_the_one_before(
    autojump_clock,
):
    replies = []
    for n in range(12):
        replies.append((says(f"s{n}"), done(call(call_id=f"c{n}")), used(18_000 + 700 * (n % 4))))
        if n % 4 == 3:
            replies.append((says(f"summary {n}"), used(100)))
    async with play_with([*replies, (says("end"), used(100))]) as play:
        await play.supervisor.send_text("go")
        await play.supervisor.wait_turns()
        inputs = play.gateway.inputs
        replaced = play.supervisor.events_of(ContextReplaced)
    assert len(replaced) == 3
    breaks = sum(after[: len(before)] != before for before, after in pairwise(inputs))
    assert breaks == len(replaced)
    assert all(sum(map(is_person_message, one)) in {1, 2} for one in inputs)
