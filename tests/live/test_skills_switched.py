"""Skills are switched for one project, by the person's own configuration; uses are remembered."""

import json

import pytest
import trio

from swarm.mailbox.protocol.events import Warned

pytestmark = pytest.mark.live
LIMIT_S = 60


def write_skill(rig):
    place = rig.work / ".agents" / "skills" / "notes"
    (place / "agents").mkdir(parents=True)
    (rig.work / ".git").mkdir()
    (place / "SKILL.md").write_text("---\nname: notes\ndescription: Notes.\n---\nDo it.\n")
    (place / "agents" / "openai.yaml").write_text(
        "dependencies: {tools: [{type: mcp, value: docs, url: 'https://docs.example/mcp'}]}\n"
    )


async def command(rig, *words):
    ended = await (await rig.start(*words)).wait_end()
    assert ended.code == 0, ended.err
    return ended


async def listed(rig):
    return json.loads((await command(rig, "skills", "list", "--json")).out)


async def test_a_skill_is_off_and_on_again_in_this_project(rig):
    write_skill(rig)
    with trio.fail_after(LIMIT_S):
        await command(rig, "trust", "--yes")
        assert (await listed(rig))["enabled"]
        said = await command(rig, "skills", "disable", "notes")
        assert str(rig.work) in said.out
        assert not (await listed(rig))["enabled"]
        await command(rig, "skills", "enable", "notes")
        assert (await listed(rig))["enabled"]
        wrong = await (await rig.start("skills", "disable", "other")).wait_end()
    assert wrong.code == 2
    assert "there are: notes" in wrong.err


async def test_a_named_skill_is_noted_as_used_and_its_missing_server_is_named(rig):
    write_skill(rig)
    with trio.fail_after(LIMIT_S):
        await command(rig, "trust", "--yes")
        assert (await listed(rig))["last_used"] is None
        run = await rig.run(rig.script({"text": "done"}), "-p", "Use $notes.")
        assert (await run.wait_end()).code == 0
        assert (await listed(rig))["last_used"] > 0
    warned = [body.message for body in rig.bodies(Warned)]
    assert any("swarm mcp add docs --url https://docs.example/mcp" in line for line in warned)
