"""What a server may ask a model: texts, bounded; all else is refused whole."""

import mcp_types
import pytest

from swarm.mailbox.protocol.server_sampling import SamplingAction, SamplingAnswer, SamplingTurn
from swarm.worker.parts.mcp.sampling_request import (
    MAX_CHARS,
    MAX_TOKENS,
    MAX_TURNS,
    SamplingRefused,
    read_sampling,
    sampling_result,
)


def text(said="hello", role="user"):
    return {"role": role, "content": {"type": "text", "text": said}}


def params(*messages, **more):
    given = {"messages": list(messages), "maxTokens": 10, **more}
    return mcp_types.CreateMessageRequestParams.model_validate(given)


def test_texts_are_cleaned_and_wishes_for_models_and_context_left_out():
    asked = params(
        text("a\x1b[31mb\u202e"), text("c", role="assistant"), text("d"),
        systemPrompt="be\x07 short", maxTokens=10**9, includeContext="allServers", temperature=2,
        modelPreferences={"intelligencePriority": 1},
    )  # fmt: skip
    assert read_sampling(asked, server="s", tool="t\x1b") == SamplingAction(
        server="s",
        turns=(
            SamplingTurn(role="user", text="a[31mb"),
            SamplingTurn(role="assistant", text="c"),
            SamplingTurn(role="user", text="d"),
        ),
        system="be short",
        max_tokens=MAX_TOKENS,
        tool="t",
    )


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        (params(), "1 to"),
        (params(*[text()] * (MAX_TURNS + 1)), "1 to"),
        (params(text("x" * MAX_CHARS), systemPrompt="y"), "characters together"),
        (params(text(), maxTokens=0), "at least 1"),
        (params(text(role="assistant")), "last message"),
        (params(text(), tools=[{"name": "t", "inputSchema": {"type": "object"}}]), "no tools"),
        (
            params({"role": "user", "content": [
                {"type": "text", "text": "a"},
                {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"},
            ]}),
            "holds audio",
        ),
    ],
)  # fmt: skip
def test_what_is_out_of_bounds_is_refused_with_a_reason(asked, says):
    with pytest.raises(SamplingRefused, match=says):
        read_sampling(asked, server="s", tool="t")


def test_an_answer_says_why_it_ended_and_a_failure_is_an_error():
    cut = sampling_result(SamplingAnswer(text="a", model="m", is_cut=True))
    assert isinstance(cut, mcp_types.CreateMessageResult)
    assert (cut.model, cut.stop_reason) == ("m", "maxTokens")
    failed = sampling_result(SamplingAnswer(fault="no budget"))
    assert isinstance(failed, mcp_types.ErrorData)
    assert failed.message == "no budget"
