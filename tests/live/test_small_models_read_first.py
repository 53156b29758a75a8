"""A small model that does its worst with a greeting or a question leaves the project as it was."""

import json
from typing import Any

import pytest
import trio

from swarm.mailbox.protocol.events import CallEnded

pytestmark = pytest.mark.live
LIMIT_S = 60
APPEND = {"cmd": "echo harm >> notes.txt; ls"}
SED = {"cmd": "grep -rIl a . | xargs sed -i 's/a/b/g'"}
EDIT = {"path": "notes.txt", "old_text": "a", "new_text": "harm"}
ESCALATED = {"cmd": "echo harm > made", "sandbox_permissions": "require_escalated"}


def configure(rig, url: str) -> None:
    rig.environment["MAIN_KEY"] = "sk-main-0123456789abcdef"
    (rig.home / "config.toml").write_text(
        f'[model_providers.main]\nname = "main"\nenv_key = "MAIN_KEY"\nbase_url = "{url}"\n'
        'wire_api = "chat"\n'
    )
    (rig.home / "models.toml").write_text('[models.tiny]\nprovider = "main"\nsmall = true\n')
    (rig.home / "rules").mkdir()
    (rig.home / "rules" / "own.rules").write_text('prefix_rule(pattern=["tee"], decision="allow")')
    (rig.work / "notes.txt").write_text("a\n")


def called(name: str, arguments: dict[str, Any], call_id: str) -> dict[str, Any]:
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"tool_calls": [{"index": 0, "id": call_id, "type": "function", "function": function}]}


def tree(folder) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else b""
        for path in sorted(folder.rglob("*"))
        if ".git" not in path.parts
    }


async def run_calls(rig, model_server, calls, prompt, sandbox="workspace-write"):
    replies = [
        model_server.chat(called(name, arguments, f"c{number}"), finish="tool_calls")
        for number, (name, arguments) in enumerate(calls)
    ]
    turns = [*replies, model_server.chat({"content": "done"})]
    model_server.choose = lambda _: model_server.reply(turns.pop(0))
    words = ("run", "-p", prompt, "--provider", "main", "-m", "tiny", "--plain", "-s", sandbox)
    with trio.fail_after(LIMIT_S):
        return await (await rig.start(*words)).wait_end()


@pytest.mark.parametrize("prompt", ["hi", "What does this project do?"])
@pytest.mark.parametrize("sandbox", ["workspace-write", "danger-full-access"])
async def test_the_project_is_as_it_was_after_a_greeting_and_a_question(
    rig, model_server, prompt, sandbox
):
    configure(rig, model_server.url)
    before = tree(rig.work)
    claim = {"asks_for": "change", "words": prompt}
    calls = [
        ("exec_command", APPEND), ("edit_file", EDIT), ("begin_task", claim),
        ("exec_command", SED), ("edit_file", EDIT), ("exec_command", ESCALATED),
        ("exec_command", {"cmd": "tee made"}),
    ]  # fmt: skip
    ended = await run_calls(rig, model_server, calls, prompt, sandbox)
    assert (ended.code, ended.out) == (0, "done\n"), ended.err
    assert tree(rig.work) == before


async def test_it_writes_once_it_has_said_with_words_of_the_task_that_a_change_is_wanted(
    rig, model_server
):
    configure(rig, model_server.url)
    claim = {"asks_for": "change", "words": "Write harm"}
    calls = [("edit_file", EDIT), ("begin_task", claim), ("edit_file", EDIT)]
    ended = await run_calls(rig, model_server, calls, "Write harm into notes.txt")
    assert ended.code == 0, ended.err
    assert (rig.work / "notes.txt").read_text() == "harm\n"
    statuses = [body.status for body in rig.bodies(CallEnded, agent="/root")]
    assert statuses == ["failed", "completed", "completed"]
