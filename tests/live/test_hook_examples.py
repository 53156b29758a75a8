"""The scripts of examples/hooks, each in a run: as written for its product, they notice nothing."""

import json
import shutil

import pytest
import trio

from support.hook_files import call, outputs, patch, ran, run_trusted, texts
from support.paths import ROOT
from swarm.mailbox.protocol.events import TurnFailed
from swarm.mailbox.protocol.records import ApprovalResolved

pytestmark = pytest.mark.live
DONE = {"text": "done"}
EXAMPLES = ROOT / "examples" / "hooks"


def install(rig, product):
    """The project has the scripts of one product, and its file as it is there."""
    (rig.work / ".git").mkdir()
    shutil.copytree(EXAMPLES / product, rig.work / product)
    name = {"codex": ".codex/hooks.json", "claude": ".claude/settings.json"}[product]
    target = rig.work / name
    target.parent.mkdir()
    shutil.move(rig.work / product / target.name, target)


def failures(rig):
    return [one for one in ran(rig) if one.status == "failed"]


def asking(command):
    return call(command, sandbox_permissions="require_escalated", justification="a test")


async def test_codexs_guard_log_formatter_and_stop_hook_work_as_they_are(rig):
    install(rig, "codex")
    (rig.work / "NOTES.md").write_text("TODO: more\n")
    ended = await run_trusted(
        rig,
        {"calls": [call("rm -rf build")]},
        {"calls": [call("echo fine")]},
        {"calls": [patch("a.txt", "blanks   ")]},
        {"text": "first"},
        {"text": "second"},
    )
    assert ended.code == 0, ended.err
    assert outputs(rig)[0] == "rm -rf is not allowed here: name the files, or ask"
    assert "fine" in outputs(rig)[1]
    logged = [json.loads(line) for line in (rig.work / "calls.jsonl").read_text().splitlines()]
    assert [one["tool_input"]["command"] for one in logged] == ["rm -rf build", "echo fine"]
    assert (rig.work / "a.txt").read_text() == "blanks\n"
    assert sum("NOTES.md still names something" in text for text in texts(rig)) == 1
    assert "second" in ended.out
    assert failures(rig) == []


async def test_codexs_session_start_tells_the_model_the_state_of_the_repository(rig):
    install(rig, "codex")
    (rig.work / ".git").rmdir()
    await trio.run_process(["git", "init", "-q", "-b", "trunk", str(rig.work)])
    (rig.work / "fresh.txt").touch()
    await run_trusted(rig, DONE)
    assert any("trunk" in text and "?? fresh.txt" in text for text in texts(rig))
    assert failures(rig) == []


async def test_codexs_permission_hook_approves_one_command_and_leaves_others_to_people(rig):
    install(rig, "codex")
    words = ("--reviewer", "person", "-c", 'approval_timeout="1s"')
    turns = ({"calls": [asking("make test")]}, {"calls": [asking("touch other")]}, DONE)
    await run_trusted(rig, *turns, words=words)
    outcomes = [(one.outcome, one.by) for one in rig.bodies(ApprovalResolved)]
    assert outcomes == [("approved", "hook"), ("timed_out", "nobody")]
    assert failures(rig) == []


async def test_codexs_prompt_hook_withholds_a_key(rig):
    install(rig, "codex")
    ended = await run_trusted(rig, DONE, words=("-p", "use sk-abcdefghij0123456789"))
    assert ended.code == 1
    assert "the prompt holds a key" in rig.bodies(TurnFailed)[0].message


async def test_claudes_guards_formatter_and_rewriting_work_as_they_are(rig):
    install(rig, "claude")
    ended = await run_trusted(
        rig,
        {"calls": [patch(".env.local", "KEY=1")]},
        {"calls": [patch("a.txt", "blanks   ")]},
        {"calls": [call("cd . && git push origin main")]},
        {"calls": [call("npm() { echo npm ran $1; }; npm install")]},
        DONE,
    )
    assert ended.code == 0, ended.err
    assert [one.text for one in ran(rig) if one.status == "blocked"] == [
        ".env.local holds secrets", "push to a branch of your own, not to main"
    ]  # fmt: skip
    assert not (rig.work / ".env.local").exists()
    assert (rig.work / "a.txt").read_text() == "blanks\n"
    assert outputs(rig)[0] == "push to a branch of your own, not to main"
    assert "npm ran ci" in outputs(rig)[1]
    assert (rig.work / "sessions.txt").read_text() == "ended: other\n"
    assert failures(rig) == []
    pushes = [one for one in ran(rig) if "block_push" in one.command]
    assert len(pushes) == 1  # `if`: asked about no other command


async def test_claudes_notification_hook_is_told_that_a_person_is_waited_for(rig):
    install(rig, "claude")
    words = ("--reviewer", "person", "-c", 'approval_timeout="3s"')
    await run_trusted(rig, {"calls": [asking("touch x")]}, DONE, words=words)
    told = (rig.work / "notifications.txt").read_text()
    assert told == "The agent needs your permission to use Bash\n"
    assert failures(rig) == []


async def test_claudes_hook_keeps_the_summary_of_a_compaction_and_the_session_starts_anew(rig):
    install(rig, "claude")
    again = {"matcher": "compact", "hooks": [{"type": "command", "command": "echo as before"}]}
    (rig.home / "hooks.json").write_text(json.dumps({"hooks": {"SessionStart": [again]}}))
    config = rig.home / "config.toml"
    config.write_text("model_auto_compact_token_limit = 3000\n")
    words = ("-p", "word " * 2_500)
    await run_trusted(
        rig, {"calls": [call("seq 3000")]}, {"text": "the summary"}, DONE, words=words
    )
    assert "the summary" in (rig.work / "summary.md").read_text()
    assert texts(rig).count("as before") == 1
    assert failures(rig) == []
