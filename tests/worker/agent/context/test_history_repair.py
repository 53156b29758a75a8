"""After repair every call has exactly one output and every output its call."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from swarm.mailbox.protocol.items import (
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCall,
    FunctionCallOutput,
    Reasoning,
    text_message,
)
from swarm.mailbox.protocol.spec import EndedCall
from swarm.worker.agent.context.history_repair import ABORTED, INTERRUPTED, repair_history

ASK, SAY = text_message("user", "do"), text_message("assistant", "doing")
CALL_A = FunctionCall(call_id="a", name="exec_command", arguments="{}")
CALL_B = CustomToolCall(call_id="b", name="apply_patch", input="*** Begin Patch")
OUT_A = FunctionCallOutput(call_id="a", output="done", success=True)


def test_a_whole_history_stays_as_it_is():
    items = (ASK, SAY, CALL_A, OUT_A, SAY)
    repaired = repair_history(items)
    assert repaired.items == items
    assert repaired.added == ()


def test_open_calls_of_the_last_response_get_outputs_at_the_end_in_call_order():
    repaired = repair_history((ASK, CALL_A, CALL_B, SAY), interrupted={"b"})
    assert repaired.added == (
        FunctionCallOutput(call_id="a", output=ABORTED, success=False),
        CustomToolCallOutput(call_id="b", output=INTERRUPTED, success=False),
    )
    assert repaired.items == (ASK, CALL_A, CALL_B, SAY, *repaired.added)


def test_a_call_that_had_ended_is_never_told_to_be_interrupted():
    end = EndedCall(call_id="a", status="completed", exit_code=0, output="all is well")
    repaired = repair_history((ASK, CALL_A), interrupted={"a"}, ended={"a": end})
    [output] = repaired.added
    assert output.success is True
    assert "(completed with exit code 0)" in output.output
    assert output.output.endswith("\nall is well")


def test_an_older_open_call_is_answered_behind_its_response():
    later = text_message("user", "and now?")
    repaired = repair_history((ASK, CALL_A, later))
    assert repaired.items[2] == FunctionCallOutput(call_id="a", output=ABORTED, success=False)
    assert repaired.items[3] == later
    assert repaired.added == ()


def test_outputs_without_a_call_and_second_outputs_go():
    repaired = repair_history((OUT_A, ASK, CALL_A, OUT_A, OUT_A))
    assert repaired.items == (ASK, CALL_A, OUT_A)


def test_a_call_id_that_comes_again_is_another_call():
    again = FunctionCall(call_id="a", name="exec_command", arguments="{}")
    items = (ASK, CALL_A, OUT_A, again, FunctionCallOutput(call_id="a", output="two"))
    assert repair_history(items).items == items


IDS = st.sampled_from("abc")
PIECES = st.one_of(
    st.builds(FunctionCall, call_id=IDS, name=st.just("t"), arguments=st.just("{}")),
    st.builds(CustomToolCall, call_id=IDS, name=st.just("t"), input=st.just("")),
    st.builds(FunctionCallOutput, call_id=IDS, output=st.just("o")),
    st.builds(CustomToolCallOutput, call_id=IDS, output=st.just("o")),
    st.just(ASK),
    st.just(SAY),
    st.just(Reasoning()),
)


@given(st.lists(PIECES, max_size=12))
def test_any_history_becomes_whole_and_repairing_it_again_changes_nothing(items):
    repaired = repair_history(tuple(items))
    calls, outputs = Counter(), Counter()
    for item in repaired.items:
        if isinstance(item, FunctionCall | CustomToolCall):
            calls[item.call_id] += 1
        elif isinstance(item, FunctionCallOutput | CustomToolCallOutput):
            outputs[item.call_id] += 1
            assert outputs[item.call_id] <= calls[item.call_id]
    assert calls == outputs
    again = repair_history(repaired.items)
    assert again.items == repaired.items
    assert again.added == ()
