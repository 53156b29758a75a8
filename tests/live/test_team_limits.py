"""What a model may not do with its team, and what becomes of a request whose asker is gone."""

import msgspec
import pytest
import trio

from support.scripted_team_run import (
    SWARM,
    ScriptedRun,
    call,
    calls,
    open_scripted_run,
    says,
    spawns,
    waits,
)
from swarm.mailbox.delivery.control_channel import send_control_request
from swarm.mailbox.protocol.control import InterruptAgent, decode_control_reply, encode_control
from swarm.mailbox.protocol.events import CallBegan, TurnCompleted
from swarm.mailbox.protocol.records import (
    AgentEnded,
    AgentSpawned,
    MailHandled,
    MailPosted,
    ProcessEnded,
)
from swarm.supervisor.runs.paths import find_user_paths

pytestmark = pytest.mark.live


def refused(scripted) -> list[str]:
    return [output for output in scripted.outputs() if not output.startswith("{")]


async def test_over_the_total_of_a_run_a_spawn_is_refused_and_a_refused_one_costs_nothing(tmp_path):
    turns = [
        calls("/root", *spawns("a"), *spawns("a"), *spawns("b", "c")),
        calls("/root", waits("a", "b")),
        says("/root", "enough"),
        says("/root/*", "done"),
    ]
    async with open_scripted_run(tmp_path, turns, "--max-spawns", "2") as scripted:
        pass
    assert scripted.code == 0
    already, over = refused(scripted)
    assert "already exists" in already
    assert "this run may start 2 agents in all" in over
    assert {one.path for one in scripted.of(AgentSpawned)} == {"/root", "/root/a", "/root/b"}


async def test_what_is_no_role_for_a_child_is_an_error_and_never_the_default(tmp_path):
    folder = find_user_paths(ScriptedRun(tmp_path).environment).config / "agents"
    folder.mkdir(parents=True)
    (folder / "mine.toml").write_text('name = "mine"\nsandbox_mode = "read-onl"\n')
    roles = ("mine", "guardian", "explorr")
    wanted = [spawns(f"a{n}", agent_type=role)[0] for n, role in enumerate(roles)]
    turns = [calls("/root", *wanted), says("/root", "none of them")]
    async with open_scripted_run(tmp_path, turns) as scripted:
        pass
    assert scripted.code == 0
    broken, guardian, unknown = refused(scripted)
    assert broken.startswith("agent type is currently not available: ")
    assert "mine.toml" in broken
    assert guardian.startswith("unknown agent_type 'guardian'")
    assert unknown.startswith("unknown agent_type 'explorr'; did you mean `explorer`?")
    assert [one.path for one in scripted.of(AgentSpawned)] == ["/root"]


async def test_a_completion_wakes_no_idle_parent_if_it_shall_not(tmp_path):
    turns = [
        calls("/root", *spawns("a")),
        says("/root", "I do not wait"),
        says("/root", "I was woken"),
        calls("/root/a", call("exec_command", cmd="sleep 0.3")),
        says("/root/a", "a is done"),
    ]
    async with open_scripted_run(tmp_path, turns, "-c", "agents.wake_parents=false") as scripted:
        pass
    assert scripted.code == 0
    assert (scripted.folder / "out").read_text().count("I do not wait") >= 1
    assert len(scripted.of(TurnCompleted, "/root")) == 1
    assert [one.mail.content for one in scripted.of(MailPosted, "/root")] == ["a is done"]


async def test_a_bound_of_requests_is_raised_by_a_resume(tmp_path):
    more = {**calls("/root", call("exec_command", cmd="true")), "repeat": 3}
    async with open_scripted_run(
        tmp_path, [more, says("/root", "through")], "--budget-requests", "2"
    ) as scripted:
        pass
    assert scripted.code == 4
    argv = [SWARM, "resume", scripted.run_id(), "--plain", "--budget-requests", "9"]
    with trio.fail_after(30):
        done = await trio.run_process(
            argv, env=scripted.environment, capture_stdout=True, capture_stderr=True, check=False
        )
    assert done.returncode == 0, done.stderr.decode()


async def test_a_parent_that_ends_while_its_child_runs_is_woken_by_its_answer(tmp_path):
    turns = [
        calls("/root", *spawns("p")),
        calls("/root", waits("p")),
        calls("/root", waits(seconds=20)),
        says("/root", "{last_output}"),
        calls("/root/p", *spawns("c")),
        says("/root/p", "not yet"),
        says("/root/p", "now I know"),
        calls("/root/p/c", call("exec_command", cmd="until test -e go; do sleep 0.02; done")),
        says("/root/p/c", "known"),
    ]
    async with open_scripted_run(tmp_path, turns) as scripted:
        await scripted.until(lambda: scripted.of(AgentEnded, "/root/p"))
        (tmp_path / "go").touch()
    assert scripted.code == 0
    assert [one.message for one in scripted.of(AgentEnded, "/root/p")] == ["not yet", "now I know"]
    answers = [one.mail.content for one in scripted.of(MailPosted, "/root")]
    assert answers == ["not yet", "now I know"]
    assert [one.message for one in scripted.of(AgentEnded, "/root/p/c")] == ["known"]
    assert scripted.slots_at_the_end() == 1


async def test_a_request_in_line_is_withdrawn_with_the_turn_that_asked_for_it(tmp_path):
    turns = [
        calls("/root", *spawns("p")),
        calls("/root", waits("p")),
        says("/root", "{last_output}"),
        calls("/root/p", *spawns("c")),
        calls("/root/p", *spawns("d")),
        calls("/root/p/c", call("exec_command", cmd="until test -e go; do sleep 0.02; done")),
        says("/root/*/*", "done"),
    ]
    async with open_scripted_run(tmp_path, turns, "--max-agents", "3") as scripted:
        await scripted.until(lambda: len(scripted.of(CallBegan, "/root/p")) == 2)
        await scripted.until(lambda: scripted.of(CallBegan, "/root/p/c"))
        await scripted.until(lambda: scripted.of(MailPosted, "/root/p/d"))
        request = encode_control(InterruptAgent(agent="/root/p"))
        decode_control_reply(await send_control_request(scripted.control(), request, timeout_s=10))
        await scripted.until(lambda: scripted.of(MailHandled, "/root/p/d"))
        (tmp_path / "go").touch()
    assert scripted.code == 0
    (message,) = scripted.of(MailHandled, "/root/p/d")
    assert message.dead
    assert not scripted.of(AgentSpawned, "/root/p/d")
    finished = msgspec.json.decode(scripted.outputs()[-1])["finished"]
    assert [one["end_state"] for one in finished] == ["interrupted"]
    assert scripted.slots_at_the_end() == 1


async def test_a_root_that_fails_while_its_child_runs_takes_it_along(tmp_path):
    turns = [
        calls("/root", *spawns("c")),
        {"agent": "/root", "delay_s": 0.3, "fault": {"status": 400, "message": "no"}},
        calls("/root/c", call("exec_command", cmd="sleep 50")),
    ]
    async with open_scripted_run(tmp_path, turns) as scripted:
        pass
    assert scripted.code in {1, 5}
    assert scripted.of(CallBegan, "/root/c")
    assert len(scripted.of(ProcessEnded)) == len(scripted.of(AgentSpawned)) == 2
    assert [one.state for one in scripted.of(AgentEnded, "/root")] == ["failed"]
