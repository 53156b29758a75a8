"""`swarm acp` and an editor: sessions, prompts, questions, servers; the official SDK's client."""

import base64
import sys
from typing import Any

import acp
import anyio
import pytest
import trio
from acp.schema import EnvVariable, McpServerStdio, SseMcpServer

from support.acp_editor import LIMIT_S, Editor, command, connected, play, said, use
from support.mcp_testbed import PROGRAM as SERVER
from swarm.mailbox.protocol.ops import ImageInput
from swarm.mailbox.protocol.records import (
    AgentSpawned,
    ApprovalRequested,
    InputPosted,
    RunCompleted,
)

pytestmark = pytest.mark.live
PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c6360"
    "f8cf500f0003860180b4bb6b400000000049454e44ae426082"
)


async def test_a_session_works_is_listed_loaded_and_goes_on(rig):
    patch = "*** Begin Patch\n*** Add File: a.txt\n+hello\n*** End Patch"
    apply = {"name": "apply_patch", "custom": True, "arguments": patch}
    plan = {"plan": [{"step": "write", "status": "completed"}]}
    update_plan = {"name": "update_plan", "arguments": plan}
    use(
        rig,
        {"agent": "/root", "reasoning": "a file", "calls": [apply, update_plan]},
        said("Written."),
        said("Again: {last_user}"),
    )  # fmt: skip
    first, later = Editor(), Editor()
    text = [acp.text_block("Write a.txt.")]

    async def client() -> None:
        async with connected(rig, first) as connection:
            session = await connection.new_session(cwd=str(rig.work), mcp_servers=[])
            reply = await connection.prompt(session_id=session.session_id, prompt=text)
            assert reply.stop_reason == "end_turn"
            assert first.text == "Written."
        async with connected(rig, later) as connection:
            (listed,) = (await connection.list_sessions(cwd=str(rig.work))).sessions
            assert (listed.session_id, listed.title) == (session.session_id, "Write a.txt.")
            await connection.load_session(
                cwd=str(rig.work), session_id=listed.session_id, mcp_servers=[]
            )
            assert later.text == "Written."
            assert later.of("user_message_chunk")[0]["content"]["text"] == "Write a.txt."
            more = [acp.text_block("And now?")]
            reply = await connection.prompt(session_id=session.session_id, prompt=more)
            assert later.text == "Written.Again: And now?"

    await play(client)
    assert (rig.work / "a.txt").read_text() == "hello\n"
    assert first.of("agent_thought_chunk")[0]["content"]["text"] == "a file"
    assert first.of("plan")[0]["entries"][0]["content"] == "write"
    (call,) = first.of("tool_call")
    where = {"path": str(rig.work / "a.txt"), "line": 1}
    assert (call["kind"], call["locations"]) == ("edit", [where])
    assert call["content"][0] == {
        "type": "diff", "path": str(rig.work / "a.txt"), "newText": "hello\n",
    }  # fmt: skip
    with trio.fail_after(LIMIT_S):
        await rig.wait_gone()


@pytest.mark.parametrize(("answer", "made"), [("once", True), ("deny", False), (None, False)])
async def test_the_editor_is_asked_in_the_mode_ask_and_its_answer_counts(rig, answer, made):
    use(rig, command("touch made"), said("{last_output}"))
    editor = Editor(answer)

    async def client() -> None:
        async with connected(rig, editor) as connection:
            session = await connection.new_session(cwd=str(rig.work), mcp_servers=[])
            name = session.session_id
            await connection.set_session_mode(session_id=name, mode_id="ask")
            await connection.set_config_option(session_id=name, config_id="effort", value="low")
            await connection.prompt(session_id=name, prompt=[acp.text_block("do it")])

    await play(client)
    assert editor.asked == ["touch made"]
    assert (rig.work / "made").exists() is made
    assert rig.bodies(AgentSpawned)[0].effort == "low"


async def test_images_resources_and_files_that_are_not_saved_reach_the_agent(rig):
    use(rig, said("seen"))
    image = acp.image_block(base64.b64encode(PIXEL).decode(), "image/png")
    inside = acp.resource_block(acp.embedded_text_resource("file:///n.md", "a note"))
    link = acp.resource_link_block("x.py", f"file://{rig.work}/x.py")

    async def client() -> None:
        async with connected(rig, Editor()) as connection:
            session = await connection.new_session(cwd=str(rig.work), mcp_servers=[])
            blocks = [acp.text_block("Look:"), image, inside, link]
            await connection.prompt(session_id=session.session_id, prompt=blocks)

    await play(client)
    *images, words = rig.bodies(InputPosted)[0].parts
    assert [type(part) for part in images] == [ImageInput]
    assert "a note" in words.text
    assert f"not saved yet: {rig.work}/x.py" in words.text


async def test_a_sub_agent_is_a_tool_call_with_its_own_progress(rig):
    spawn = {"name": "spawn_agent", "arguments": {"task_name": "scout", "message": "look around"}}
    wait = {"name": "wait_agent", "arguments": {"targets": ["/root/scout"]}}
    use(
        rig,
        {"agent": "/root", "calls": [spawn]},
        {"agent": "/root", "calls": [wait]},
        {
            "agent": "/root/scout",
            **{k: v for k, v in command("echo found").items() if k == "calls"},
        },
        said("All seen.", "/root/scout"),
        said("Done."),
    )
    editor = Editor()

    async def client() -> None:
        async with connected(rig, editor) as connection:
            session = await connection.new_session(cwd=str(rig.work), mcp_servers=[])
            await connection.prompt(session_id=session.session_id, prompt=[acp.text_block("go")])

    await play(client)
    (agent,) = [one for one in editor.of("tool_call") if one["toolCallId"].startswith("agent-")]
    assert agent["title"].startswith("Agent scout")
    told = [
        one for one in editor.of("tool_call_update") if one["toolCallId"] == agent["toolCallId"]
    ]
    assert any("echo found" in str(one.get("content")) for one in told)
    assert (told[-1]["status"], "All seen." in str(told[-1]["content"])) == ("completed", True)


async def test_servers_of_the_editor_are_used_in_the_sandbox_also_after_the_run_was_continued(rig):
    (rig.home / "config.toml").write_text(
        f'model_provider = "{rig.script(*_calls_of_server(rig))}"\n'
        '[mcp_servers.known]\ncommand = "none-such"\nenabled = false\n'
    )
    more = [EnvVariable(name="OWN", value="${HOME} literally")]
    server = McpServerStdio(name="Odd one", command=sys.executable, args=[SERVER], env=more)
    known = McpServerStdio(name="known", command=sys.executable, args=[SERVER], env=[])
    sse = SseMcpServer(type="sse", name="old", url="http://127.0.0.1:1/", headers=[])
    first, later = Editor(), Editor()

    async def client() -> None:
        async with connected(rig, first) as connection:
            with pytest.raises(acp.RequestError, match="'old' speaks sse"):
                await connection.new_session(cwd=str(rig.work), mcp_servers=[sse])
            given = [server, known]
            session = await connection.new_session(cwd=str(rig.work), mcp_servers=given)
            name = session.session_id
            for _ in range(2):
                await connection.prompt(session_id=name, prompt=[acp.text_block("go")])
        async with connected(rig, later) as connection:
            await connection.resume_session(
                cwd=str(rig.work), session_id=name, mcp_servers=[server]
            )
            await connection.prompt(session_id=name, prompt=[acp.text_block("again")])

    await play(client)
    environment, written = first.text.split("\n---\n")
    assert "${HOME} literally" in environment
    assert "OSError" in written or "Read-only" in written or "denied" in written
    assert not (rig.work / "out").exists()
    assert "mcp_servers.known: ignored" in str(first.of("agent_thought_chunk"))
    (call, *_) = first.of("tool_call")
    assert call["title"] == "Odd_one: environment"
    assert "still here" in later.text


def _calls_of_server(rig) -> list[dict[str, Any]]:
    def ask(tool: str, **arguments: object) -> dict[str, Any]:
        called = {"name": f"mcp__Odd_one__{tool}", "arguments": arguments}
        return {"agent": "/root", "calls": [called]}

    return [
        ask("environment"),
        said("{last_output}\n---\n"),
        ask("write", path=f"{rig.work}/out"),
        said("{last_output}"),
        ask("echo", text="still here"),
        said("{last_output}"),
    ]


async def test_a_run_of_a_terminal_is_joined_with_its_question_and_goes_on_without_the_editor(rig):
    use(rig, command("touch made"), said("made it"))
    editor = Editor()

    async def client() -> None:
        async with connected(rig, editor) as connection:
            await connection.load_session(cwd=str(rig.work), session_id=rig.run_id, mcp_servers=[])
            with anyio.fail_after(LIMIT_S):
                while editor.text != "made it":
                    await editor.has_changed()

    with trio.fail_after(LIMIT_S):
        words = ("-p", "do it", "-a", "untrusted", "--reviewer", "person", "--keep-open", "--plain")
        await rig.start("run", *words)
        await rig.wait(lambda: rig.bodies(ApprovalRequested))
    await play(client)
    assert editor.asked == ["touch made"]
    assert (rig.work / "made").exists()
    assert not rig.bodies(RunCompleted)


async def test_commands_of_a_prompt_are_those_of_the_command_line(rig):
    patch = "*** Begin Patch\n*** Add File: a.txt\n+hello\n*** End Patch"
    apply = {"name": "apply_patch", "custom": True, "arguments": patch}
    use(rig, {"agent": "/root", "calls": [apply]}, said("done"))
    editor = Editor()

    async def client() -> None:
        async with connected(rig, editor) as connection:
            session = await connection.new_session(cwd=str(rig.work), mcp_servers=[])
            name = session.session_id

            async def ask(words: str) -> str:
                before = len(editor.text)
                await connection.prompt(session_id=name, prompt=[acp.text_block(words)])
                return editor.text[before:]

            with pytest.raises(acp.RequestError, match="needs a run"):
                await ask("/diff")
            await ask("Write a.txt.")
            assert "+hello" in await ask("/diff")
            assert "/root" in await ask("/agents")
            await ask("/undo")
            assert not (rig.work / "a.txt").exists()
            await ask("/watch")
            await connection.close_session(session_id=name)

    await play(client)
    (commands,) = editor.of("available_commands_update")
    names = [one["name"] for one in commands["availableCommands"]]
    assert names == ["compact", "diff", "undo", "merge", "agents", "context", "watch"]
    assert editor.terminals[0][-2:] == ["watch", rig.run_id]
    assert editor.released == ["terminal-1"]


async def test_a_cancelled_turn_ends_twice_over_and_the_session_goes_on(rig):
    use(rig, command("sleep 60"), said("gone on"))
    editor = Editor()

    async def client() -> None:
        async with connected(rig, editor) as connection:
            session = await connection.new_session(cwd=str(rig.work), mcp_servers=[])
            name, words = session.session_id, [acp.text_block("do it")]
            replies = []
            async with anyio.create_task_group() as tasks:

                async def ask() -> None:
                    replies.append(await connection.prompt(session_id=name, prompt=words))

                tasks.start_soon(ask)
                await editor.is_working.wait()
                with pytest.raises(acp.RequestError, match="still being worked on"):
                    await connection.prompt(session_id=name, prompt=words)
                await connection.cancel(session_id=name)
                await connection.cancel(session_id=name)
            assert replies[0].stop_reason == "cancelled"
            assert (
                await connection.prompt(session_id=name, prompt=words)
            ).stop_reason == "end_turn"
            assert editor.text == "gone on"

    await play(client)
