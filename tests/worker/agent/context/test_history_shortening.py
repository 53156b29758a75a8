"""Whatever a history holds, what makes it shorter leaves calls paired and pinned words whole."""

from hypothesis import given
from hypothesis import strategies as st

from swarm.mailbox.contents.context_markers import is_person_message
from swarm.mailbox.protocol.events import PlanStep
from swarm.mailbox.protocol.items import (
    AnyCall,
    AnyOutput,
    Compaction,
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCall,
    FunctionCallOutput,
    Message,
    OutputText,
    Reasoning,
    text_message,
    text_of,
)
from swarm.worker.agent.context.compacted_history import (
    CompactionBudget,
    build_compacted_history,
    compaction_budget,
    pinned_messages,
    provider_ending,
    summary_message,
)
from swarm.worker.agent.context.context_blocks import guidance_text, turn_aborted_message
from swarm.worker.agent.context.history_repair import repair_history
from swarm.worker.agent.context.history_trimming import trim_history
from swarm.worker.agent.context.pinned_state import (
    PinnedState,
    collect_state,
    state_in_item,
    state_text,
)
from swarm.worker.base.token_meter import measure_item

CONTEXT = (
    text_message("developer", "<permissions instructions>\nx\n</permissions instructions>"),
    text_message("user", "<environment_context>\n</environment_context>"),
)
TEXTS = st.text(max_size=6).map(lambda text: text * 40 + "x")
NOTE = "cut"


def mail_item(text):
    return Message(role="assistant", content=(OutputText(text=text),), author="/root/a")


@st.composite
def responses(draw):
    """One response: thoughts, words and calls, then an output for each call, in call order."""
    ids = draw(st.lists(st.sampled_from("abc"), max_size=4))  # ids come again, also in one response
    made = [
        FunctionCall(call_id=name, name="look", arguments=draw(TEXTS))
        if draw(st.booleans())
        else CustomToolCall(call_id=name, name="apply_patch", input=draw(TEXTS))
        for name in ids
    ]
    head = draw(st.lists(st.sampled_from([Reasoning(), Reasoning(encrypted_content="e" * 900)])))
    said = [text_message("assistant", draw(TEXTS))] if draw(st.booleans()) else []
    outputs = [
        (FunctionCallOutput if isinstance(call, FunctionCall) else CustomToolCallOutput)(
            call_id=call.call_id, output=draw(TEXTS)
        )
        for call in made
    ]
    return [*head, *said, *made, *outputs]


OTHERS = st.one_of(
    TEXTS.map(lambda text: [text_message("user", text)]),
    TEXTS.map(lambda text: [mail_item(text)]),
    st.just([turn_aborted_message()]),
    TEXTS.map(lambda text: [text_message("developer", text)]),
    st.just([text_message("user", guidance_text("deep", cwd="/w/deep"))]),
    st.just([Compaction(encrypted_content="sealed")]),
)
HISTORIES = st.lists(st.one_of(responses(), OTHERS), max_size=12).map(
    lambda parts: (*CONTEXT, *(item for part in parts for item in part))
)


def total(items):
    return sum(map(measure_item, items))


def check_whole(items):
    """The normal form: `repair` finds nothing to mend."""
    assert repair_history(tuple(items)).items == tuple(items)


@given(HISTORIES, st.integers(0, 4_000))
def test_a_cut_history_fits_is_whole_and_keeps_what_is_pinned(items, room):
    left = trim_history(
        items, room_tokens=room, note=NOTE, state=collect_state(items), measure=measure_item
    )
    if left is None:
        return
    check_whole(left)
    assert total(left) <= room
    assert total(left) < total(items)
    kept = [item for item in left if not isinstance(item, AnyOutput)]
    assert set(map(repr, kept[:-1])) <= set(map(repr, items))
    assert all(items[index] in left for index in pinned_messages(items))
    assert all(item in left for item in CONTEXT)
    assert state_in_item(left[-1]) == collect_state(items)
    sealed = [item for item in items if isinstance(item, Compaction)]
    assert [item for item in left if isinstance(item, Compaction)] == sealed


@given(HISTORIES, st.integers(0, 4_000), st.integers(0, 4_000))
def test_what_was_cut_can_be_cut_again_and_has_one_closing(items, first, second):
    def cut_to(history, room):
        return trim_history(
            history, room_tokens=room, note=NOTE, state=collect_state(history), measure=measure_item
        )

    once = cut_to(items, first)
    twice = None if once is None else cut_to(once, second)
    if twice is None:
        return
    check_whole(twice)
    assert sum(state_in_item(item) is not None for item in twice) == 1
    assert collect_state(twice) == collect_state(items)


def test_outputs_go_before_anything_else_and_the_oldest_first():
    pair = [
        FunctionCall(call_id="a", name="look", arguments="{}"),
        FunctionCallOutput(call_id="a", output="x" * 4_000),
    ]
    items = (*CONTEXT, text_message("user", "task"), *pair, *pair)
    room = total(items) - 700
    left = trim_history(
        items, room_tokens=room, note=NOTE, state=PinnedState(), measure=measure_item
    )
    assert left is not None
    outputs = [item.output for item in left if isinstance(item, AnyOutput)]
    assert outputs[0].startswith("[output removed to make room, about 1")
    assert outputs[1] == "x" * 4_000
    assert sum(isinstance(item, AnyCall) for item in left) == 2


def test_nothing_is_cut_where_the_pinned_words_alone_are_too_long():
    items = (*CONTEXT, text_message("user", "x" * 40_000))
    assert (
        trim_history(items, room_tokens=5_000, note=NOTE, state=PinnedState(), measure=measure_item)
        is None
    )


@given(HISTORIES, st.integers(0, 3_000), TEXTS)
def test_a_rebuilt_history_is_whole_begins_with_its_context_and_ends_with_the_summary(
    items, words, summary
):
    state = collect_state(items)
    room = CompactionBudget(texts=words, summary=100)
    ending = summary_message("intro", summary, state, room)
    left = build_compacted_history(
        items, context=CONTEXT, ending=(ending,), room=room, measure=measure_item
    )
    check_whole(left)
    assert left[:2] == CONTEXT
    assert left[-1] == ending
    assert collect_state(left) == state
    assert not any(isinstance(item, AnyCall | AnyOutput | Reasoning) for item in left)
    said = [item for item in items if is_person_message(item)]
    if said:
        assert said[-1] in left
    again = build_compacted_history(
        left, context=CONTEXT, ending=(ending,), room=room, measure=measure_item
    )
    assert again == left


def test_of_the_other_words_the_newest_stay_and_the_last_that_fits_in_part_is_cut():
    said = [text_message("user", f"{n} " + "x" * 1_200) for n in range(5)]
    size = measure_item(said[1])
    room = CompactionBudget(texts=size + size // 2, summary=100)
    left = build_compacted_history(said, context=(), ending=(), room=room, measure=measure_item)
    assert left[0] == said[0]
    assert left[2:] == (said[3], said[4])
    assert "tokens truncated" in text_of(left[1].content)
    assert text_of(left[1].content).startswith("2 ")


def test_guidance_for_folders_below_stays_the_latest_of_each():
    def told(text, folder):
        return text_message("user", guidance_text(text, cwd=folder))

    items = (*CONTEXT, told("old", "/w/a"), told("b", "/w/b"), told("new", "/w/a"))
    left = build_compacted_history(
        items, context=CONTEXT, ending=(), room=CompactionBudget(), measure=measure_item
    )
    assert left == (*CONTEXT, told("b", "/w/b"), told("new", "/w/a"))


def test_a_provider_that_sealed_nothing_has_not_compacted():
    assert provider_ending([text_message("assistant", "hm")], PinnedState()) == ()
    sealed = Compaction(encrypted_content="x")
    assert provider_ending([text_message("user", "go"), sealed], PinnedState()) == (sealed,)
    state = PinnedState(agents=("scout",))
    (_, told) = provider_ending([sealed], state)
    assert state_in_item(told) == state


STATES = st.builds(
    PinnedState,
    plan=st.lists(
        st.builds(PlanStep, step=st.text(), status=st.sampled_from(["pending", "completed"]))
    ).map(tuple),
    changed_files=st.lists(st.text(min_size=1).map("A {}".format)).map(tuple),
    agents=st.lists(st.text()).map(tuple),
)


@given(STATES)
def test_a_state_reads_back_as_it_was_told(state):
    text = state_text(state)
    assert (text == "") == (state == PinnedState())
    if text:
        assert state_in_item(text_message("user", text)) == state


def test_a_persons_words_that_begin_like_a_state_are_no_state():
    assert state_in_item(text_message("user", "<kept_state> is what?")) is None


def test_the_bounds_follow_the_limit():
    assert compaction_budget(None) == CompactionBudget()
    assert compaction_budget(4_000) == CompactionBudget(texts=1_000, summary=1_000)
    assert compaction_budget(10**6) == CompactionBudget()
