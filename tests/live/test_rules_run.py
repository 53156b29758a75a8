"""A whole run obeys the rule files: forbidden, asked about, allowed; and it says what is broken."""

import pytest
import trio

pytestmark = pytest.mark.live
LIMIT_S = 30


def call(script, **more):
    return {"calls": [{"name": "exec_command", "arguments": {"cmd": script, **more}}]}


def with_rules(rig, text, name="mine.rules"):
    folder = rig.home / "rules"
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(text)


async def test_a_forbidden_command_does_not_run_and_the_model_reads_why(rig):
    with_rules(
        rig, 'prefix_rule(pattern=["touch"], decision="forbidden", justification="no touching")'
    )
    script = rig.script(
        call("echo before && touch made-by-agent"), call("echo after"), {"text": "x"}
    )
    with trio.fail_after(LIMIT_S):
        ended = await (await rig.run(script)).wait_end()
    assert ended.code == 0
    refused, ran = rig.outputs()
    assert "rejected: no touching" in refused
    assert "after" in ran
    assert not list(rig.home.parent.rglob("made-by-agent"))


async def test_an_allowed_command_runs_outside_of_the_sandbox_and_others_stay_in(rig, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    with_rules(rig, f'prefix_rule(pattern=["touch", "{outside}/a"])')
    script = rig.script(call(f"touch {outside}/a"), call(f"touch {outside}/b"), {"text": "x"})
    with trio.fail_after(LIMIT_S):
        await (await rig.run(script, "--reviewer", "nobody", sandbox="workspace-write")).wait_end()
    assert [path.name for path in outside.iterdir()] == ["a"]


async def test_a_broken_rule_file_is_told_and_what_it_could_decide_is_not_run(rig):
    with_rules(rig, "\nprefix_rule(pattern=[])", name="bad.rules")
    script = rig.script(call("touch made-by-agent"), call("ls"), {"text": "x"})
    with trio.fail_after(LIMIT_S):
        ended = await (await rig.run(script, "--reviewer", "nobody")).wait_end()
    assert "bad.rules:2: invalid pattern element: pattern cannot be empty" in ended.err
    refused, listed = rig.outputs()
    assert "bad.rules:2" in refused
    assert "Process exited with code 0" in listed
    assert not list(rig.home.parent.rglob("made-by-agent"))
