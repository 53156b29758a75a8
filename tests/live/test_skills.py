"""Skills in whole runs: what models get, and that nothing untrusted reaches them."""

import pytest
import trio

from swarm.mailbox.protocol.events import Warned
from swarm.mailbox.protocol.items import Message, text_of
from swarm.mailbox.protocol.records import ContextRecorded, ItemRecorded, MailPosted, RunIdle

pytestmark = pytest.mark.live
LIMIT_S = 30
SKILL = "---\nname: notes\ndescription: Write release notes.\n---\n\nSay SECRET-STEP.\n"


def write_skill(rig, text=SKILL):
    (rig.work / ".git").mkdir(exist_ok=True)
    place = rig.work / ".agents" / "skills" / "notes"
    place.mkdir(parents=True, exist_ok=True)
    (place / "SKILL.md").write_text(text)
    return place / "SKILL.md"


def told(rig) -> list[str]:
    items = [body.item for body in rig.bodies(ItemRecorded)]
    items += [item for body in rig.bodies(ContextRecorded) for item in body.items]
    return [text_of(item.content) for item in items if isinstance(item, Message)]


async def command(rig, *words):
    return await (await rig.start(*words)).wait_end()


async def test_a_trusted_skill_is_listed_and_given_where_the_task_names_it(rig):
    path = write_skill(rig)
    with trio.fail_after(LIMIT_S):
        assert (await command(rig, "trust", "--yes")).code == 0
        run = await rig.run(rig.script({"text": "done"}), "-p", "Use $notes now.")
        assert (await run.wait_end()).code == 0
    texts = told(rig)
    assert any(f"- notes: Write release notes. (file: {path})" in text for text in texts)
    given = [text for text in texts if text.startswith("<skill>\n<name>notes</name>\n")]
    assert len(given) == 1
    assert "SECRET-STEP" in given[0]
    assert "Use $notes now." in texts


async def test_before_trust_nothing_of_a_repositorys_skill_reaches_a_model(rig):
    write_skill(rig)
    with trio.fail_after(LIMIT_S):
        run = await rig.run(rig.script({"text": "done"}), "-p", "Use $notes now.")
        ended = await run.wait_end()
    assert ended.code == 0
    assert "not trusted" in ended.err
    assert not any("release notes" in text or "SECRET-STEP" in text for text in told(rig))


async def test_a_skill_that_changes_during_the_run_is_left_out_with_a_warning(rig):
    path = write_skill(rig)
    calls = [
        {
            "name": "exec_command",
            "arguments": {"cmd": "touch begun; until [ -e go ]; do sleep 0.05; done"},
        }
    ]
    with trio.fail_after(LIMIT_S):
        assert (await command(rig, "trust", "--yes")).code == 0
        run = await rig.run(rig.script({"calls": calls}, {"text": "a"}, {"text": "b"}), "-p", "go")
        await rig.wait((rig.work / "begun").exists)
        path.write_text(SKILL.replace("SECRET-STEP", "EVIL"))
        assert (await command(rig, "send", rig.run_id, "/root", "and $notes")).code == 0
        (rig.work / "go").touch()
        assert (await run.wait_end()).code == 0
    assert not any("EVIL" in text for text in told(rig))
    assert any("was not trusted" in body.message for body in rig.bodies(Warned))


async def test_a_skill_that_a_person_adds_during_a_run_is_told_with_the_next_turn(rig):
    place = rig.home / ".agents" / "skills" / "notes"
    with trio.fail_after(LIMIT_S):
        await rig.run(rig.script({"text": "one"}, {"text": "two"}), "--keep-open", "-p", "go")
        await rig.wait(lambda: len(rig.bodies(RunIdle)) == 1)
        place.mkdir(parents=True)
        (place / "SKILL.md").write_text(SKILL)
        await rig.wait(lambda: any("notes (new)" in one.message for one in rig.bodies(Warned)))
        assert (await command(rig, "send", rig.run_id, "root", "Use $notes")).code == 0
        await rig.wait(lambda: len(rig.bodies(RunIdle)) == 2)
        assert (await command(rig, "end", rig.run_id)).code == 0
    first, second = (text for text in told(rig) if text.startswith(("<skills", "<permissions")))
    assert "notes" not in first
    assert f"- notes: Write release notes. (file: {place}/SKILL.md)" in second
    assert any("SECRET-STEP" in text for text in told(rig))


async def test_a_new_agent_gets_the_skill_that_its_task_names(rig):
    write_skill(rig)
    spawn = {"name": "spawn_agent", "arguments": {"task_name": "a", "message": "Use $notes."}}
    with trio.fail_after(LIMIT_S):
        assert (await command(rig, "trust", "--yes")).code == 0
        provider = rig.script({"agent": "/root", "calls": [spawn]}, default={"text": "done"})
        run = await rig.run(provider, "-p", "go")
        assert (await run.wait_end()).code == 0
    (mail,) = (one.mail for one in rig.bodies(MailPosted) if one.mail.kind == "new_task")
    assert mail.content.startswith("Use $notes.\n\n<skill>\n<name>notes</name>\n")
    assert "SECRET-STEP" in mail.content
