"""Roles that choose tools, prompt, sampling and skills, in whole runs against a real server."""

import json
from typing import Any

import pytest
import trio

from swarm.mailbox.protocol.events import CallEnded, Warned
from swarm.mailbox.protocol.items import FunctionCallOutput
from swarm.mailbox.protocol.records import ItemRecorded

pytestmark = pytest.mark.live
LIMIT_S = 60
SCOUT = (
    'name = "scout"\ndescription = "Looks."\ndeveloper_instructions = "Look."\n'
    'tools = ["list_dir", "send_message"]\nprompt = "short"\nskills = []\n'
    "temperature = 0.1\ntop_k = 5\n"
)


def configure(rig, url: str, role: str) -> None:
    rig.environment["MAIN_KEY"] = "sk-main-0123456789abcdef"
    (rig.home / "config.toml").write_text(
        f'[model_providers.main]\nname = "main"\nenv_key = "MAIN_KEY"\nbase_url = "{url}"\n'
        'wire_api = "chat"\n'
    )
    (rig.home / "agents").mkdir()
    (rig.home / "agents" / "scout.toml").write_text(role)


def called(name: str, arguments: dict[str, Any], call_id: str) -> dict[str, Any]:
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"tool_calls": [{"index": 0, "id": call_id, "type": "function", "function": function}]}


async def test_a_child_is_offered_and_may_call_what_its_role_names_and_nothing_else(
    rig, model_server
):
    configure(rig, model_server.url, SCOUT)
    spawn = {"task_name": "s", "message": "look", "agent_type": "scout"}
    turns = {
        "/root": [
            model_server.chat(called("spawn_agent", spawn, "c1"), finish="tool_calls"),
            model_server.chat(called("wait_agent", {}, "c2"), finish="tool_calls"),
            model_server.chat({"content": "done"}),
        ],
        "/root/s": [
            model_server.chat(called("bash", {"command": "touch made"}, "d1"), finish="tool_calls"),
            model_server.chat(called("exec_command", {"cmd": "touch made"}, "d2"),
                              finish="tool_calls"),
            model_server.chat(called("list_dir", {"dir_path": "."}, "d3"), finish="tool_calls"),
            model_server.chat({"content": "looked"}),
        ],
    }  # fmt: skip
    seen_by: dict[str, list[Any]] = {"/root": [], "/root/s": []}

    def answer(seen: Any) -> Any:
        path = "/root/s" if b"You are `/root/s`" in seen.body else "/root"
        path = "/root/s" if "temperature" in seen.json else path
        seen_by[path].append(seen.json)
        return model_server.reply(turns[path].pop(0))

    model_server.choose = answer
    with trio.fail_after(LIMIT_S):
        ended = await (await rig.run("main", "-m", "large")).wait_end()
    assert (ended.code, ended.out) == (0, "done\n"), ended.err
    first = seen_by["/root/s"][0]
    assert [tool["function"]["name"] for tool in first["tools"]] == ["list_dir", "send_message"]
    assert (first["temperature"], first["top_k"]) == (0.1, 5)
    assert "temperature" not in seen_by["/root"][0]
    assert len(seen_by["/root"][0]["tools"]) > 10
    assert len(json.dumps(first)) < 5_000 < len(json.dumps(seen_by["/root"][0]))
    outputs = [
        str(body.item.output)
        for body in rig.bodies(ItemRecorded, agent="/root/s")
        if isinstance(body.item, FunctionCallOutput)
    ]
    assert [text.startswith("unsupported call: exec_command; the tools are list_dir")
            for text in outputs] == [True, True, False]  # fmt: skip
    statuses = [body.status for body in rig.bodies(CallEnded, agent="/root/s")]
    assert statuses == ["failed", "failed", "completed"]
    assert not (rig.work / "made").exists()


async def test_a_skill_that_the_role_excludes_is_neither_listed_nor_read(rig, model_server):
    (rig.home / "skills" / "notes").mkdir(parents=True)
    (rig.home / "skills" / "notes" / "SKILL.md").write_text(
        "---\nname: notes\ndescription: Write release notes.\n---\n\nSay SECRET-STEP.\n"
    )
    configure(rig, model_server.url, SCOUT)
    model_server.add_chat({"content": "done"})
    with trio.fail_after(LIMIT_S):
        run = await rig.run("main", "-m", "large", "--role", "scout", "-p", "Use $notes now.")
        ended = await run.wait_end()
    assert ended.code == 0, ended.err
    (seen,) = model_server.requests
    assert b"release notes" not in seen.body
    assert b"SECRET-STEP" not in seen.body
    (warned,) = [one.message for one in rig.bodies(Warned) if "notes" in one.message]
    assert warned == (
        "skill notes is left out: the role of /root excludes it (`skills` in its file)"
    )
