"""Models that behave badly, through the real loop: each turn has one clear end."""

import msgspec
import pytest

from support.nested_fields import with_fields
from swarm.mailbox.protocol.events import CallBegan, CallEnded, TurnCompleted, TurnFailed
from swarm.mailbox.protocol.items import (
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCall,
    FunctionCallOutput,
    encode_item,
    text_message,
)
from swarm.mailbox.protocol.ops import TextInput, UserInput
from swarm.mailbox.protocol.sampling import ModelInfo
from swarm.worker.testing.agent_harness import END, done, open_agent_harness
from swarm.worker.testing.fake_tools import FAKE_AGENT_SPEC, FakeTool
from swarm.worker.tools.update_plan import UpdatePlanTool

FINAL = (done(text_message("assistant", "done")), END)
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


def call(name, call_id="c", arguments="{}"):
    return FunctionCall(call_id=call_id, name=name, arguments=arguments)


def answers(*texts):
    return [(done(text_message("assistant", text)), END) for text in texts]


async def ask_for_json(play):
    parts = (TextInput(text="how many?"),)
    schema = msgspec.json.encode(SCHEMA)
    await play.supervisor.send_op(UserInput(input_id="turn-1", parts=parts, output_schema=schema))
    return await play.supervisor.wait_turns()


async def test_one_call_for_ever_is_told_of_once_and_then_ends_the_turn(autojump_clock):
    tool = FakeTool("look")
    replies = [(done(call("look", f"c{number}")), END) for number in range(100)]
    async with open_agent_harness(FAKE_AGENT_SPEC, replies, tools=[tool]) as play:
        await play.supervisor.send_text("go")
        ending = await play.supervisor.wait_turns()
    assert isinstance(ending, TurnFailed)
    assert ending.kind == "repeating"
    assert "12 times in a row" in ending.message
    assert len(tool.runs) == 13
    notes = [item.content[0].text for item in play.supervisor.items("note")]
    assert len(notes) == 1
    assert "6 times in a row" in notes[0]
    assert len(play.supervisor.items("tool")) == 13  # the last one is answered too


async def test_a_model_that_polls_one_silent_command_for_ever_is_told_and_then_ends(autojump_clock):
    class Poll(FakeTool):
        async def run(self, verdict, listen):
            times = f"Wall time: {len(self.runs)}.0 seconds"  # what it reads is never the same
            outcome = await super().run(verdict, listen)
            return msgspec.structs.replace(outcome, content=times, session_id=1)

    tool = Poll("write_stdin")
    replies = [(done(call("write_stdin", f"c{number}")), END) for number in range(700)]
    async with open_agent_harness(FAKE_AGENT_SPEC, replies, tools=[tool]) as play:
        await play.supervisor.send_text("go")
        ending = await play.supervisor.wait_turns()
    assert (type(ending), ending.kind) == (TurnFailed, "repeating")
    assert "waited 600 times in a row" in ending.message
    assert len(tool.runs) == 601
    (note,) = [item.content[0].text for item in play.supervisor.items("note")]
    assert "waited 60 times in a row" in note


async def test_a_model_that_heeds_what_it_is_told_goes_on(autojump_clock):
    replies = [(done(call("look", f"c{number}")), END) for number in range(7)]
    async with open_agent_harness(
        FAKE_AGENT_SPEC, [*replies, FINAL], tools=[FakeTool("look")]
    ) as play:
        await play.supervisor.send_text("go")
        assert isinstance(await play.supervisor.wait_turns(), TurnCompleted)


async def test_a_model_that_calls_unknown_tools_for_ever_is_stopped_too(autojump_clock):
    replies = [(done(call("nothing", f"c{number}")), END) for number in range(100)]
    async with open_agent_harness(FAKE_AGENT_SPEC, replies) as play:
        await play.supervisor.send_text("go")
        ending = await play.supervisor.wait_turns()
    assert (type(ending), ending.kind) == (TurnFailed, "repeating")
    assert {event.status for event in play.supervisor.events_of(CallEnded)} == {"failed"}


async def test_two_calls_with_one_id_are_told_apart(autojump_clock):
    one, other = FakeTool("one"), FakeTool("other")
    reply = (
        done(call("one", "c")),
        done(call("other", "c")),
        done(CustomToolCall(call_id="c", name="gone", input="x")),
        done(call("one", "")),
        END,
    )
    async with open_agent_harness(FAKE_AGENT_SPEC, [reply, FINAL], tools=[one, other]) as play:
        await play.supervisor.send_text("go")
        assert isinstance(await play.supervisor.wait_turns(), TurnCompleted)
    assert play.supervisor.items("tool") == [
        FunctionCallOutput(call_id="c", output="one ok", success=True),
        FunctionCallOutput(call_id="c-2", output="other ok", success=True),
        CustomToolCallOutput(
            call_id="c-3",
            output="unsupported custom tool call: gone; the tools are one, other",
            success=False,
        ),
        FunctionCallOutput(call_id="call-2", output="one ok", success=True),
    ]
    begun = [event.call_id for event in play.supervisor.events_of(CallBegan)]
    ended = [event.call_id for event in play.supervisor.events_of(CallEnded)]
    assert sorted(begun) == sorted(ended) == ["c", "c-2", "c-3", "call-2"]


async def test_a_server_that_counts_its_calls_again_in_each_response_is_told_them_apart(
    autojump_clock,
):
    look, (first, again) = FakeTool("look"), ("call_0", "call_0-2")
    former = (
        FunctionCall(call_id="old", name="look", arguments="{}"),
        FunctionCallOutput(call_id="old", output="look ok", success=True),
    )
    spec = with_fields(
        FAKE_AGENT_SPEC, history=tuple(msgspec.Raw(encode_item(item)) for item in former)
    )
    replies = [(done(call("look", name)), END) for name in ("call_0", "call_0", "old")]
    async with open_agent_harness(spec, [*replies, FINAL], tools=[look]) as play:
        await play.supervisor.send_text("go")
        assert isinstance(await play.supervisor.wait_turns(), TurnCompleted)
    begun = [event.call_id for event in play.supervisor.events_of(CallBegan)]
    ended = [event.call_id for event in play.supervisor.events_of(CallEnded)]
    told = [item.call_id for item in play.supervisor.items("tool")]
    assert begun == ended == told == [first, again, "old-2"]
    assert len(look.runs) == 3


@pytest.mark.parametrize("arguments", ["no json", "[1]", '{"plan": [', "{" * 5_000, "17"])
async def test_arguments_that_are_no_json_are_answered_and_the_turn_goes_on(
    autojump_clock, arguments
):
    reply = (done(call("update_plan", "c", arguments)), END)
    async with open_agent_harness(
        FAKE_AGENT_SPEC, [reply, FINAL], tools=[UpdatePlanTool()]
    ) as play:
        await play.supervisor.send_text("go")
        assert isinstance(await play.supervisor.wait_turns(), TurnCompleted)
    (output,) = play.supervisor.items("tool")
    assert output.output.startswith("failed to parse function arguments")
    assert output.success is False


async def test_an_answer_that_does_not_fit_its_schema_is_asked_for_once_more(autojump_clock):
    async with open_agent_harness(FAKE_AGENT_SPEC, answers("about seven", '{"n": 7}')) as play:
        ending = await ask_for_json(play)
    assert (type(ending), ending.last_message) == (TurnCompleted, '{"n": 7}')
    (note,) = play.supervisor.items("note")
    assert "not JSON" in note.content[0].text
    assert '"integer"' in note.content[0].text  # the schema, for providers that do not pass it on
    assert all(request.output_schema for request in play.gateway.requests)


async def test_it_is_asked_for_once_and_not_for_ever(autojump_clock):
    async with open_agent_harness(
        FAKE_AGENT_SPEC, answers("no", '{"n": "no"}', "never asked")
    ) as play:
        ending = await ask_for_json(play)
    assert ending.last_message == '{"n": "no"}'
    assert len(play.gateway.requests) == 2


async def test_an_answer_that_fits_is_not_asked_for_again(autojump_clock):
    async with open_agent_harness(FAKE_AGENT_SPEC, answers('{"n": 1}', "never asked")) as play:
        assert (await ask_for_json(play)).last_message == '{"n": 1}'


async def test_a_reviewers_answer_is_judged_by_who_asked_it(autojump_clock):
    spec = msgspec.structs.replace(FAKE_AGENT_SPEC, path="/guardian")
    async with open_agent_harness(spec, answers("no json", "never asked")) as play:
        assert (await ask_for_json(play)).last_message == "no json"


BROKEN = '{"name": "look", "arguments": {oops}'


async def test_a_call_that_cannot_be_read_is_corrected_and_then_runs(autojump_clock):
    tool = FakeTool("look")
    replies = [*answers(BROKEN), (done(call("look")), END), FINAL]
    async with open_agent_harness(FAKE_AGENT_SPEC, replies, tools=[tool]) as play:
        await play.supervisor.send_text("go")
        ending = await play.supervisor.wait_turns()
    assert isinstance(ending, TurnCompleted)
    assert ending.last_message == "done"
    assert len(tool.runs) == 1
    (note,) = [item.content[0].text for item in play.supervisor.items("note")]
    assert '{"name":"look","arguments":{}}' in note


async def test_a_model_that_writes_unreadable_calls_fails_after_two_corrections(autojump_clock):
    async with open_agent_harness(
        FAKE_AGENT_SPEC, answers(*[BROKEN] * 3), tools=[FakeTool("look")]
    ) as play:
        await play.supervisor.send_text("go")
        ending = await play.supervisor.wait_turns()
    assert isinstance(ending, TurnFailed)
    assert ending.kind == "unreadable_call"
    assert "also after 2 corrections" in ending.message
    assert len(play.supervisor.items("note")) == 2


SMALL = ModelInfo(slug="s", provider="local", wire="chat", small=True)
UNMADE = '{"name": "exec_command", "arguments": {"cmd": oops}}'


async def say_go(replies, model):
    tool = FakeTool("exec_command")
    async with open_agent_harness(FAKE_AGENT_SPEC, replies, tools=[tool], model=model) as play:
        await play.supervisor.send_text("go")
        ending = await play.supervisor.wait_turns()
    notes = [item.content[0].text for item in play.supervisor.items("note")]
    return ending, notes, len(tool.runs)


async def test_a_small_model_that_answers_in_place_of_an_unreadable_call_fails(autojump_clock):
    ending, notes, runs = await say_go(answers(UNMADE, "fixed", "fixed"), SMALL)
    assert isinstance(ending, TurnFailed)
    assert (ending.kind, runs) == ("unreadable_call", 0)
    assert "answered without the call of exec_command" in ending.message
    assert "your call of exec_command was never made" in notes[1]


async def test_a_small_model_that_makes_its_call_after_all_has_answered(autojump_clock):
    made = (done(call("exec_command", arguments='{"cmd": "ls"}')), END)
    ending, notes, runs = await say_go([*answers(UNMADE, "fixed"), made, *answers("f")], SMALL)
    assert isinstance(ending, TurnCompleted)
    assert (ending.last_message, len(notes), runs) == ("f", 2, 1)


@pytest.mark.parametrize(
    ("text", "model"),
    [
        (UNMADE, ModelInfo(slug="m", provider="p", wire="chat")),  # it may have shown an example
        ('{"name": "finish", "arguments": {"answer": oops}}', SMALL),  # it meant to answer
    ],
)
async def test_plain_words_after_a_correction_are_an_answer(autojump_clock, text, model):
    ending, notes, _ = await say_go(answers(text, "the port is 80"), model)
    assert isinstance(ending, TurnCompleted)
    assert (ending.last_message, len(notes)) == ("the port is 80", 1)


@pytest.mark.parametrize("text", ["", " \n"])
async def test_a_model_without_an_answer_is_asked_in_words_and_then_fails(autojump_clock, text):
    async with open_agent_harness(
        FAKE_AGENT_SPEC, answers(*[text] * 4), tools=[FakeTool("look")]
    ) as play:
        await play.supervisor.send_text("go")
        ending = await play.supervisor.wait_turns()
    assert isinstance(ending, TurnFailed)
    assert (ending.kind, len(play.supervisor.items("note"))) == ("no_answer", 3)
    assert "after it was asked 3 times" in ending.message


async def test_a_call_by_a_trained_name_runs_the_tool_that_it_means(autojump_clock):
    tool = FakeTool("exec_command")
    shell = call("shell", arguments='{"command": ["ls"]}')
    async with open_agent_harness(
        FAKE_AGENT_SPEC, [(done(shell), END), FINAL], tools=[tool]
    ) as play:
        await play.supervisor.send_text("go")
        assert isinstance(await play.supervisor.wait_turns(), TurnCompleted)
    assert len(tool.runs) == 1
    (kept,) = [item for item in play.supervisor.items("model") if isinstance(item, FunctionCall)]
    assert kept.name == "shell"  # the history stays as the model wrote it
