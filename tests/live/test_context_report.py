"""The context report of a real run: what was sent, from which file, by the server's own count."""

import json

import pytest
import trio

pytestmark = pytest.mark.live
LIMIT_S = 30


async def test_the_report_names_the_files_and_adds_up_to_the_servers_count(rig):
    (rig.work / ".git").mkdir()
    (rig.work / "AGENTS.md").write_text("Use the linter.\n")
    script = rig.script(
        {"text": "I look.", "calls": [{"name": "exec_command", "arguments": {"cmd": "echo hi"}}]},
        {"text": "done", "usage": {"input_tokens": 9_000, "output_tokens": 20}},
    )
    with trio.fail_after(LIMIT_S):
        run = await rig.run(script, "-p", "Look.")
        assert (await run.wait_end()).code == 0
        shown = await (await rig.start("show", rig.run_id, "--context", "--json")).wait_end()
        page = await (await rig.start("show", rig.run_id, "root", "--context")).wait_end()
    report = json.loads(shown.out)
    assert report["counted"]
    assert report["used_tokens"] == 9_020 == sum(part["tokens"] for part in report["parts"])
    files = [part["source"] for part in report["parts"] if part["group"] == "agents_md"]
    assert str(rig.work / "AGENTS.md") in files
    tools = {part["source"] for part in report["parts"] if part["group"] == "tools"}
    assert {"exec_command", "apply_patch"} <= tools
    assert "counted by the server" in page.out
