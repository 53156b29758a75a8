"""Streams that are cut in the middle of a text: what a server then bills, on each wire."""

import json
import re

import pytest
import trio

from swarm.mailbox.protocol.gateway import ReservationReleased, ResponseBilled
from swarm.mailbox.protocol.items import Message, text_of
from swarm.mailbox.protocol.records import ItemRecorded, Reserved

pytestmark = pytest.mark.live
LIMIT_S = 60
WORDS = 60
STORY = " ".join(f"word-{number}" for number in range(WORDS))


class Teller:
    """A server that tells one story, a word is a token; it goes on where a last assistant's message
    ends, and is cut off after so many words of each request.
    """

    def __init__(self, server, wire, *cuts, refuses=False, echoes=False):
        self._server, self._wire, self._cuts = server, wire, list(cuts)
        self._refuses, self._echoes = refuses, echoes
        self.billed = 0
        self.partials = []
        server.choose = self.answer

    def answer(self, seen):
        said = self._said(seen.json)
        if said:
            self.partials.append(said)
        if said and self._refuses:
            body = b'{"error":{"type":"invalid_request_error","message":"no prefill here"}}'
            return self._server.reply(body)._replace(status=400)
        assert STORY.startswith(said)
        words = re.findall(r" ?\S+", STORY[len(said) :])
        is_cut = bool(self._cuts)
        words = words[: self._cuts.pop(0)] if is_cut else words
        self.billed += len(words)
        shown = [said, *words] if self._echoes and said else words
        whole = getattr(self, f"_{self._wire}")(shown)
        end = whole.index(b"@end@")
        return self._server.reply(whole[:end], "close" if is_cut else whole[end + 5 :])

    def _said(self, body):
        last = body[{"responses": "input"}.get(self._wire, "messages")][-1]
        if last["role"] != "assistant":
            return ""
        content = last["content"]
        return content if isinstance(content, str) else content[0]["text"]

    def _chat(self, words):
        sse = self._server.sse
        told = [{"id": "c", "choices": [{"delta": {"content": word}}]} for word in words]
        last = {"id": "c", "choices": [{"delta": {}, "finish_reason": "stop"}]}
        return sse(*told) + b"@end@" + sse(last, "[DONE]")

    def _messages(self, words):
        sse = self._server.sse
        told = [
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": w}}
            for w in words
        ]
        start = {"type": "content_block_start", "index": 0, "content_block": {"type": "text"}}
        end = {"type": "content_block_stop", "index": 0}
        stop = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}}
        begun = {"type": "message_start", "message": {"id": "m"}}
        return sse(begun, start, *told) + b"@end@" + sse(end, stop, {"type": "message_stop"})

    def _responses(self, words):
        item = self._server.message("".join(words))
        whole = self._server.responses(item)
        return whole.replace(
            b"data: " + b'{"type":"response.output_item.done"',
            b"@end@data: " + b'{"type":"response.output_item.done"',
        )


def configure(rig, server, wire, *, continues):
    flag = "continues_text = true\n" if continues else ""
    (rig.home / "config.toml").write_text(
        'model = "some-model"\nmodel_provider = "b"\n[model_providers.b]\n'
        f'base_url = "{server.url}"\nwire_api = "{wire}"\n{flag}'
    )


async def tell(rig, *words):
    with trio.fail_after(LIMIT_S):
        ended = await (await rig.run("b", "--json", *words)).wait_end()
    assert ended.code == 0, ended.err
    lines = [json.loads(line) for line in ended.out.splitlines()]
    return [line["item"]["text"] for line in lines if line["type"] == "item.completed"], lines


@pytest.mark.parametrize("wire", ["chat", "messages"])
@pytest.mark.parametrize("echoes", [False, True])
async def test_a_cut_text_is_billed_once_where_the_provider_goes_on(
    rig, model_server, wire, echoes
):
    configure(rig, model_server, wire, continues=True)
    teller = Teller(model_server, wire, 20, 25, echoes=echoes)
    texts, lines = await tell(rig, "--budget-tokens", "1000000")
    assert texts == [STORY]
    assert teller.billed == WORDS
    assert [len(said.split()) for said in teller.partials] == [20, 45]
    warnings = [line["message"] for line in lines if line["type"] == "warning"]
    assert not any("Reconnecting" in words for words in warnings)
    assert len(rig.bodies(Reserved)) == 3  # each request was granted, and accounted for, by itself
    assert len(rig.bodies(ReservationReleased)) + len(rig.bodies(ResponseBilled)) == 3
    said = [b.item for b in rig.bodies(ItemRecorded) if b.source == "model"]
    assert [text_of(item.content) for item in said if isinstance(item, Message)] == [STORY]


@pytest.mark.parametrize("wire", ["chat", "messages", "responses"])
async def test_elsewhere_a_cut_text_is_asked_for_again_and_billed_again(rig, model_server, wire):
    configure(rig, model_server, wire, continues=False)
    teller = Teller(model_server, wire, 20)
    texts, _ = await tell(rig)
    assert texts == [STORY]
    assert teller.billed == 20 + WORDS
    assert teller.partials == []


async def test_a_provider_that_refuses_a_beginning_is_asked_again_and_not_tried_again(
    rig, model_server
):
    configure(rig, model_server, "chat", continues=True)
    teller = Teller(model_server, "chat", 20, 30, refuses=True)
    texts, _ = await tell(rig)
    assert texts == [STORY]
    assert len(teller.partials) == 1
    assert teller.billed == 20 + 30 + WORDS


async def test_on_the_responses_wire_whole_items_stay_and_the_next_one_alone_is_said_again(
    rig, model_server
):
    configure(rig, model_server, "responses", continues=False)
    first = model_server.message("I look at the files first.")
    whole = model_server.responses({**first, "phase": "commentary"}, model_server.message(STORY))
    last = whole.rindex(b'data: {"type":"response.output_item.done"')
    model_server.add(whole[:last], "close")
    model_server.add_responses(model_server.message(STORY))
    texts, _ = await tell(rig)
    assert texts == ["I look at the files first.", STORY]
    again = model_server.requests[1].json["input"]
    assert again[-1]["content"][0]["text"] == "I look at the files first."


async def test_on_the_responses_wire_the_setting_is_an_error(rig, model_server):
    configure(rig, model_server, "responses", continues=True)
    with trio.fail_after(LIMIT_S):
        ended = await (await rig.run("b")).wait_end()
    assert ended.code == 5
    assert "model_providers.b.continues_text" in ended.err
