"""The bench's model server finds what real requests have in common."""

from pathlib import Path

from model_server import OF_A_CHILD, Prefixes, Siblings

from swarm.mailbox.protocol.items import text_message
from swarm.mailbox.protocol.sampling import ModelInfo, ToolSpec
from swarm.worker.gateway.request_encoding import EncodingContext, HeadKey, RequestHeadCache
from swarm.worker.gateway.responses_request import ResponsesStore, encode_head

MODEL = ModelInfo(slug="m", provider="p", wire="responses")
TOOLS = (ToolSpec(name="exec_command", description="Run a command."),)


def body(*texts, agent="a"):
    context = EncodingContext(blobs_dir=Path("/nowhere"), model=MODEL, tolerant=False)
    store = ResponsesStore(context, RequestHeadCache(encode_head))
    for text in texts:
        store.append(text_message("user", text))
    return b"".join(store.body(HeadKey(model=MODEL, instructions="I", tools=TOOLS), agent))


def test_a_request_that_grows_holds_the_one_before_and_another_beginning_is_counted():
    seen = Prefixes()
    for texts in (("one",), ("one", "two"), ("other",)):
        seen.note(body(*texts))
    assert seen.told["requests"] == 3
    assert (seen.told["breaks"], seen.told["heads"]) == (1, 1)
    assert 0 < seen.told["reusable_bytes"] < seen.told["input_bytes"]


def test_siblings_are_compared_with_the_one_before_and_others_are_left_out():
    seen, mark = Siblings(), OF_A_CHILD.decode()
    seen.note(body("join", agent="root"))
    seen.note(body("x" * 10_000, f"{mark} You are /root/a", agent="a"))
    assert seen.told["least_share"] == 1.0
    seen.note(body("x" * 10_000, f"{mark} You are /root/b", agent="b"))
    assert 0.95 < seen.told["least_share"] < 1.0
    seen.note(body(f"{mark} You are /root/c", "x" * 10_000, agent="c"))
    assert seen.told["least_share"] < 0.1
    assert seen.told["requests"] == 3
