"""Estimates are made once an item, and the window's fill follows the server's count."""

import pytest

from swarm.mailbox.protocol.items import (
    FunctionCallOutput,
    InputImage,
    InputText,
    Message,
    Reasoning,
    TokenUsage,
    encode_item,
    text_message,
)
from swarm.worker.base.token_meter import (
    IMAGE_BYTES,
    TokenMeter,
    estimate_item,
    estimate_tokens,
)

IMAGE = InputImage(image_url="blob:00;image/png")


@pytest.mark.parametrize(("size", "tokens"), [(0, 0), (1, 1), (4, 1), (5, 2), (4000, 1000)])
def test_four_bytes_are_a_token(size, tokens):
    assert estimate_tokens(size) == tokens


@pytest.mark.parametrize(
    ("item", "tokens"),
    [
        (Reasoning(encrypted_content="x" * 2000), (2000 * 3 // 4 - 650 + 3) // 4),
        (Reasoning(encrypted_content="x" * 100), 0),
    ],
)
def test_encrypted_reasoning_counts_as_what_was_encrypted(item, tokens):
    assert estimate_item(item, encoded_bytes=len(encode_item(item))) == tokens


def test_an_image_costs_the_same_in_a_message_and_in_an_output():
    message = Message(role="user", content=(InputText(text="see"), IMAGE))
    output = FunctionCallOutput(call_id="c", output=(IMAGE,))
    for item in (message, output):
        size = len(encode_item(item))
        assert estimate_item(item, encoded_bytes=size) == estimate_tokens(size + IMAGE_BYTES)


def test_the_window_holds_what_the_server_counted_and_what_came_after():
    meter = TokenMeter(TokenUsage(total_tokens=1000, input_tokens=900, output_tokens=100))
    meter.add_item(estimate_item(text_message("user", "hi"), encoded_bytes=40))
    assert meter.context_tokens == 10
    meter.add_response(TokenUsage(input_tokens=50, output_tokens=5, total_tokens=55))
    assert told(meter) == (55, 55, 1055)
    meter.add_item(7)
    meter.add_response(None)  # a server that counts nothing changes nothing
    assert told(meter) == (0, 62, 1055)


def test_what_is_told_of_the_cost_adds_up_to_the_total():
    meter = TokenMeter(TokenUsage())
    for tokens in (5, 7):
        meter.add_side_response(TokenUsage(input_tokens=tokens, total_tokens=tokens))
    assert told(meter) == (12, 0, 12)
    assert told(meter) == (0, 0, 12)  # the history was made shorter, and nothing was paid for


def told(meter):
    count = meter.take_count("t", None)
    return count.last.total_tokens, count.context_tokens, count.total.total_tokens
