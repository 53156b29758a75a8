"""Command files and agent files in whole runs: what they do, and nothing before trust."""

import json

import pytest
import trio

from swarm.mailbox.protocol.events import CallBegan, CallEnded, Warned
from swarm.mailbox.protocol.items import Message, text_of
from swarm.mailbox.protocol.ops import CommandInput
from swarm.mailbox.protocol.records import AgentSpawned, InputPosted, ItemRecorded

pytestmark = pytest.mark.live
LIMIT_S = 30
COMMAND = "---\ndescription: Look\n---\nLook at $1 (@notes.txt). !`echo $1; echo IN-SHELL`\n"
AGENT = "---\nname: finder\ndescription: Finds.\ntools: Read, Grep\n---\nYou are the FINDER.\n"


def write(rig, name, text):
    (rig.work / ".git").mkdir(exist_ok=True)
    path = rig.work / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def told(rig) -> list[str]:
    items = [body.item for body in rig.bodies(ItemRecorded)]
    return [text_of(item.content) for item in items if isinstance(item, Message)]


async def command(rig, *words):
    return await (await rig.start(*words)).wait_end()


async def test_a_trusted_command_brings_its_text_its_files_and_its_outputs(rig):
    write(rig, ".claude/commands/look.md", COMMAND)
    write(rig, "notes.txt", "THE-NOTES\n")
    with trio.fail_after(LIMIT_S):
        assert (await command(rig, "trust", "--yes")).code == 0
        run = await rig.run(rig.script({"text": "done"}), "-p", "/look here")
        assert (await run.wait_end()).code == 0
    words, output = told(rig)[-3:-1]
    assert words.startswith("Look at here (@notes.txt). [output 1]")
    assert "File notes.txt:\n```\nTHE-NOTES\n```" in words
    assert output.startswith("Output 1 of /look, of the command `echo here; echo IN-SHELL`:")
    assert "here\nIN-SHELL" in output
    (posted,) = rig.bodies(InputPosted)
    (called,) = [part for part in posted.parts if isinstance(part, CommandInput)]
    assert called.typed == "/look here"
    assert [body.tool for body in rig.bodies(CallBegan)] == ["exec_command"]


async def test_before_trust_a_command_is_words_and_runs_nothing(rig):
    write(rig, ".claude/commands/look.md", "!`touch ran`\n")
    write(rig, ".agents/commands/two.md", "!`touch ran`\n")
    write(rig, ".claude/agents/finder.md", AGENT)
    with trio.fail_after(LIMIT_S):
        run = await rig.run(rig.script({"text": "done"}), "-p", "/look here")
        ended = await run.wait_end()
        asked = await command(rig, "run", "--role", "finder", "-p", "x")
    assert ended.code == 0
    assert "not trusted and ignored" in ended.err
    assert "/look here" in told(rig)
    assert not (rig.work / "ran").exists()
    assert "unknown role `finder`" in asked.err


async def test_a_file_that_changed_counts_no_more_and_is_named(rig):
    path = write(rig, ".claude/commands/look.md", COMMAND)
    with trio.fail_after(LIMIT_S):
        assert (await command(rig, "trust", "--yes")).code == 0
        path.write_text(COMMAND.replace("IN-SHELL", "EVIL"))
        write(rig, ".claude/agents/finder.md", AGENT)
        run = await rig.run(rig.script({"text": "done"}), "-p", "/look here")
        ended = await run.wait_end()
    assert "changed: ../.claude/commands/look.md; new: ../.claude/agents/finder.md" in ended.err
    assert not rig.bodies(CallBegan)
    assert not any("EVIL" in text for text in told(rig))


async def test_trust_once_counts_for_one_run_alone(rig):
    write(rig, ".claude/commands/look.md", COMMAND)
    with trio.fail_after(LIMIT_S):
        provider = rig.script({"text": "done"})
        run = await rig.run(provider, "--trust-once", "-p", "/look here")
        assert (await run.wait_end()).code == 0
        listed = await command(rig, "commands", "list", "--json")
    assert rig.bodies(CallBegan)
    assert listed.out == ""
    assert "not trusted" in listed.err


async def test_a_commands_line_is_held_by_the_runs_sandbox_and_approvals(rig):
    write(rig, ".claude/commands/look.md", "!`touch made` !`git push`\n")
    with trio.fail_after(LIMIT_S):
        assert (await command(rig, "trust", "--yes")).code == 0
        limits = ("-s", "read-only", "-a", "untrusted", "--reviewer", "nobody")
        run = await rig.run(rig.script({"text": "done"}), *limits, "-p", "/look")
        await run.wait_end()
    assert [body.status for body in rig.bodies(CallEnded)] == ["declined", "declined"]
    assert not (rig.work / "made").exists()


async def test_a_sent_command_that_lacks_a_word_is_refused_and_one_that_has_it_is_read(rig):
    (rig.home / "prompts").mkdir()
    (rig.home / "prompts" / "greet.md").write_text("Say hello to $WHO.")
    with trio.fail_after(LIMIT_S):
        provider = rig.script({"text": "one"}, {"text": "two"})
        run = await rig.run(provider, "--keep-open", "-p", "start")
        await rig.wait(lambda: any("one" in text for text in told(rig)))
        refused = await command(rig, "send", rig.run_id, "/root", "/greet")
        sent = await command(rig, "send", rig.run_id, "/root", "/prompts:greet WHO=Ada")
        await rig.wait(lambda: any("two" in text for text in told(rig)))
        await command(rig, "end", rig.run_id)
        await run.wait_end()
    assert (refused.code, sent.code) == (2, 0)
    assert "/greet also takes WHO=…" in refused.err
    assert "Say hello to Ada." in told(rig)


async def test_an_agent_file_is_a_role_for_the_root_with_its_words_and_no_more_rights(rig):
    write(rig, ".claude/agents/finder.md", AGENT)
    with trio.fail_after(LIMIT_S):
        assert (await command(rig, "trust", "--yes")).code == 0
        shown = await command(rig, "roles", "list", "--json")
        run = await rig.run(rig.script({"text": "done"}), "--role", "finder", "-p", "x")
        assert (await run.wait_end()).code == 0
    roles = [json.loads(line) for line in shown.out.splitlines()]
    assert [one["sandbox_mode"] for one in roles if one["name"] == "finder"] == ["read-only"]
    (spawned,) = rig.bodies(AgentSpawned)
    assert (spawned.role, type(spawned.limits.sandbox).__name__) == ("finder", "ReadOnly")
    assert not rig.bodies(Warned)
