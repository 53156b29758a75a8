"""On the raw bytes of each wire: every request begins with the one before, whatever comes between.

So a provider's prompt cache holds: over tool calls, guidance that joins, a refused and a broken
answer, words and a message in between, an interrupt, and another life. And siblings share what
comes before their own paths and tasks.
"""

from itertools import pairwise
from typing import Any

import msgspec
import pytest
import trio

from swarm.mailbox.protocol.events import TurnAborted
from swarm.mailbox.protocol.records import ItemRecorded

pytestmark = pytest.mark.live
LIMIT_S = 60


MARK = b',"cache_control":{"type":"ephemeral"}'  # of the Messages wire; no part of the prefix


class Sent(msgspec.Struct):
    """A request's body, its parts as the bytes they came in."""

    input: list[msgspec.Raw] = []  # of the Responses wire
    messages: list[msgspec.Raw] = []  # of the Chat wire
    tools: msgspec.Raw = msgspec.Raw(b"")
    instructions: str = ""
    system: msgspec.Raw = msgspec.Raw(b"")  # of the Messages wire

    @property
    def said(self) -> list[bytes]:
        return [bytes(one) for one in self.input or self.messages]

    @property
    def blocks(self) -> list[bytes]:
        """Of the Messages wire: with the role of their message, which may grow."""
        messages = [msgspec.json.decode(one, type=Spoken) for one in self.messages]
        return [one.role.encode() + bytes(block) for one in messages for block in one.content]

    @property
    def head(self) -> tuple[str, bytes, bytes]:
        return self.instructions, bytes(self.tools), bytes(self.system)


class Spoken(msgspec.Struct):
    role: str
    content: list[msgspec.Raw]


class Wire:
    """What a server of this wire answers."""

    def __init__(self, name: str, server: Any) -> None:
        self.name, self._server = name, server
        self._calls = 0

    def calls(self, *scripts: str) -> None:
        """Queue calls of exec_command."""
        made = []
        for script in scripts:
            self._calls += 1
            made.append((script, f"call_{self._calls}"))
        if self.name == "responses":
            self._server.add_responses(
                *(self._server.function_call("exec_command", {"cmd": one}, name)
                  for one, name in made)
            )  # fmt: skip
            return
        if self.name == "messages":
            thought = {"type": "thinking", "thinking": "I look", "signature": f"S{self._calls}"}
            uses = ({"type": "tool_use", "id": name, "name": "exec_command", "input": {"cmd": one}}
                    for one, name in made)  # fmt: skip
            self._server.add_messages(thought, *uses, stop="tool_use")
            return
        calls = [
            {"index": at, "id": name, "type": "function", "function": {
                "name": "exec_command", "arguments": msgspec.json.encode({"cmd": one}).decode()}}
            for at, (one, name) in enumerate(made)
        ]  # fmt: skip
        self._server.add_chat({"tool_calls": calls}, finish="tool_calls")

    def text(self, words: str) -> None:
        """Queue an answer."""
        if self.name == "responses":
            self._server.add_responses(self._server.message(words))
        elif self.name == "messages":
            self._server.add_messages({"type": "text", "text": words})
        else:
            self._server.add_chat({"content": words})

    def broken(self) -> None:
        """Queue an answer that breaks off."""
        event: dict[str, Any] = {"type": "response.created", "response": {"id": "r"}}
        if self.name == "chat":
            event = {"id": "c1", "choices": [{"delta": {"content": "half an ans"}}]}
        if self.name == "messages":
            event = {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "ha"}}
        self._server.add(self._server.sse(event), "close")


@pytest.mark.parametrize("name", ["responses", "chat", "messages"])
async def test_every_request_begins_with_the_bytes_of_the_one_before(rig, model_server, name):
    deep = rig.work / "src"
    deep.mkdir()
    (deep / "AGENTS.md").write_text("Use tabs.\n")
    (deep / "a.txt").write_text("hello\n")
    wire = Wire(name, model_server)
    wire.calls("cat src/a.txt", "echo two")
    model_server.add_error(503, retry_after="0")
    wire.broken()
    wire.calls("sleep 2")
    wire.calls("sleep 30")
    wire.text("done")
    (rig.home / "config.toml").write_text(
        f'model = "some-model"\nmodel_provider = "b"\n[model_providers.b]\nname = "b"\n'
        f'base_url = "{model_server.url}"\nwire_api = "{name}"\n'
    )
    with trio.fail_after(LIMIT_S):
        run = await rig.run("b")
        await rig.wait_call(count=3)
        await rig.start("send", rig.run_id, "root", "and mind the tests")
        await rig.start("send", rig.run_id, "root", "a zephyr", "--no-wake")
        await rig.wait_call(count=4)
        await rig.start("interrupt", rig.run_id)
        await run.wait_end()
        assert rig.bodies(TurnAborted)
        resumed = await rig.resume("-p", "quokka")
        ended = await resumed.wait_end()
    assert ended.code == 0, ended.err
    bodies = [one.body.replace(MARK, b"") for one in model_server.requests]
    sent = [msgspec.json.decode(body, type=Sent) for body in bodies]
    assert len(sent) == 6
    assert len({one.head for one in sent}) == 1
    for before, after in pairwise(one.blocks if name == "messages" else one.said for one in sent):
        assert after[: len(before)] == before
    last = b"".join(sent[-1].said)
    for words in (b"Use tabs.", b"mind the tests", b"a zephyr", b"<turn_aborted>", b"quokka"):
        assert last.count(words) == 1
    assert {one.source for one in rig.bodies(ItemRecorded)} >= {"context", "user", "mail", "tool"}


@pytest.mark.parametrize("name", ["responses", "chat", "messages"])
@pytest.mark.parametrize("role", ["default", "explorer"])
async def test_the_first_requests_of_siblings_share_nearly_all_their_bytes(
    rig, model_server, name, role
):
    (rig.work / "AGENTS.md").write_text("Use tabs.\n")
    task = rig.work / "task.md"
    task.write_text(
        "---\nfan_out:\n  each: {lines: 'seq 3'}\n  prompt: 'look into part {item}'\n"
        f"  role: {role}\n---\njoin them\n"
    )
    answers = {
        "responses": model_server.responses(model_server.message("done")),
        "chat": model_server.chat({"content": "done"}),
        "messages": model_server.messages({"type": "text", "text": "done"}),
    }
    model_server.default = model_server.reply(answers[name])
    (rig.home / "config.toml").write_text(
        f'model = "some-model"\nmodel_provider = "b"\n[model_providers.b]\nname = "b"\n'
        f'base_url = "{model_server.url}"\nwire_api = "{name}"\n'
    )
    with trio.fail_after(LIMIT_S):
        run = await rig.start("run", str(task), "-s", "danger-full-access", "--plain")
        ended = await run.wait_end()
    assert ended.code == 0, ended.err
    bodies = [one.body for one in model_server.requests if b"look into part" in one.body]
    siblings = [body for body in bodies if b"<spawned_agent_context>" in body]
    assert len(siblings) == 3
    for one, other in pairwise(siblings):
        shared = next(at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b)
        assert shared >= 0.95 * len(one)
    if name == "chat":
        for body in siblings:
            (system, *_) = msgspec.json.decode(body)["messages"]
            assert "<spawned_agent_context>" not in system["content"]
