"""Commands as an agent runs them: real launcher, real shells, both sandboxes and none."""

import shutil
import signal
import socket
import sys
import tempfile
from pathlib import Path

import pytest
import trio

from support.command_sessions import open_command_testbed
from swarm.mailbox.base.process_tree import is_zombie
from swarm.mailbox.protocol.values.limits import DangerFullAccess
from swarm.worker.exec.exec_outcome import ExecFailed, ExecRequest, StdinFailed
from swarm.worker.sandbox.sandbox_probe import probe_sandbox

PYTHON = Path(sys.executable).resolve()  # not a link in a checkout that a private /tmp may hide
STACKS = ["none", "landlock", "bwrap"]


@pytest.fixture(params=STACKS)
def stack(request, monkeypatch):
    if request.param == "bwrap" and shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed")
    facts = probe_sandbox()
    wanted = type(facts).stack if request.param == "none" else property(lambda _: request.param)
    monkeypatch.setattr(type(facts), "stack", wanted)
    return request.param


async def test_a_command_ends_early_and_tells_its_code_and_output(tmp_path, stack):
    async with open_command_testbed(tmp_path, stack=stack) as testbed:
        done = await testbed.run("echo out; echo err >&2; pwd; exit 7")
        assert done.output == f"out\nerr\n{testbed.cwd}\n"
        assert (done.exit_code, done.session_id, done.denied) == (7, None, False)
        assert done.original_token_count == -(-len(done.output) // 4)
        assert done.wall_time_s < 10
        assert testbed.sessions.live_count() == 0


async def test_a_command_does_not_start_where_its_sandbox_shows_nothing(tmp_path, stack):
    with tempfile.TemporaryDirectory(dir="/tmp") as other:
        async with open_command_testbed(tmp_path, stack=stack) as testbed:
            if stack == "none":  # without a sandbox everything is shown
                assert (await testbed.run("pwd", cwd=other)).output.strip() == other
                return
            with pytest.raises(ExecFailed, match="cannot be seen in the sandbox"):
                await testbed.run("pwd", cwd=other)


async def test_a_death_by_signal_is_128_and_its_number(tmp_path, stack):
    async with open_command_testbed(tmp_path, stack=stack) as testbed:
        assert (await testbed.run("kill -9 $$")).exit_code == 137


async def test_fifty_megabytes_leave_both_ends_and_a_count(tmp_path, stack):
    async with open_command_testbed(tmp_path, stack=stack) as testbed:
        pieces = []
        done = await testbed.run("echo begin; yes | head -c 50000000; echo end", pieces.append)
        assert done.exit_code == 0
        assert done.output.startswith("begin\ny\n")
        assert done.output.endswith("y\nend\n")
        assert len(done.output) == 1024 * 1024
        assert done.original_token_count == 12_500_003
        assert len(pieces) <= 10_000
        assert max(len(piece.encode()) for piece in pieces) <= 8192


async def test_what_cannot_be_decoded_is_replaced(tmp_path):
    async with open_command_testbed(tmp_path) as testbed:
        assert (await testbed.run(r"printf 'a\xff\xe2\x82'")).output == "a\ufffd\ufffd"


async def test_reading_standard_input_finds_its_end(tmp_path, stack):
    async with open_command_testbed(tmp_path, stack=stack) as testbed:
        assert (await testbed.run("cat; read line; echo $?")).output == "1\n"


@pytest.mark.parametrize("size", [200_000, 1_900_000])
async def test_a_script_of_any_length_that_a_machine_takes_runs_whole(tmp_path, stack, size):
    text = "é" * (size // 2)
    script = f"cat >out <<'EOF'\n{text}\nEOF\necho $0 $#; cat; read line; echo $?; exit 3"
    async with open_command_testbed(tmp_path, stack=stack) as testbed:
        done = await testbed.run(script)
        assert (done.output, done.exit_code) == ("/bin/bash 0\n1\n", 3)
        assert (tmp_path / "work/out").read_text() == f"{text}\n"


async def test_a_long_script_with_a_terminal_reads_what_is_typed(tmp_path, stack):
    script = f": {'x' * 200_000}\nread line; echo got $line $#; exit 3"
    async with open_command_testbed(tmp_path, stack=stack) as testbed:
        begun = await testbed.run(script, tty=True, yield_time_ms=250)
        done = await testbed.sessions.write(begun.session_id, "words\n", 10_000)
        assert (done.output.replace("\r", "").endswith("got words 0\n"), done.exit_code) == (
            True,
            3,
        )


async def test_a_script_over_what_the_machine_takes_is_refused_and_little_of_it_quoted(tmp_path):
    async with open_command_testbed(tmp_path, stack="none") as testbed:
        with pytest.raises(
            ExecFailed, match=r"this machine takes .* nothing was started"
        ) as refused:
            await testbed.run("x" * 7_000_000)
        assert len(str(refused.value)) < 500
        assert (await testbed.run("echo still here")).output == "still here\n"


@pytest.mark.parametrize("hold", ["", ">/dev/null 2>&1"])
@pytest.mark.parametrize("flee", ["", "setsid ", "setsid nohup ", "env -i setsid "])
async def test_what_a_command_leaves_behind_does_not_outlive_it(tmp_path, stack, flee, hold):
    async with open_command_testbed(tmp_path, stack=stack) as testbed:
        script = f"{flee}sh -c 'echo $$ >pid; exec sleep 60' {hold} & until [ -s pid ]; do :; done"
        done = await testbed.run(script)
        assert done.exit_code == 0
        pid = pid_in(tmp_path)
        if stack != "bwrap":  # there the number means nothing out here, and the namespace is gone
            assert is_zombie(pid)
        assert not left_alive(testbed.cwd)


def pid_in(folder):
    return int((folder / "work/pid").read_text())


def left_alive(cwd):
    """Processes that still work in the folder; not the shell that waits for the next command."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if str((entry / "cwd").readlink()) == cwd and not is_zombie(int(entry.name)):
                found.append((entry / "cmdline").read_bytes())
        except OSError:
            continue
    return [words for words in found if not words.endswith(b"/sh\0")]


async def test_a_living_sessions_children_are_spared_when_another_command_ends(tmp_path):
    async with open_command_testbed(tmp_path) as testbed:
        server = "(setsid sh -c 'echo $$ >pid; exec sleep 60' &) ; sleep 60"
        first = await testbed.run(server, yield_time_ms=300)
        assert (await testbed.run("sleep 60 & echo done")).output == "done\n"
        pid = pid_in(tmp_path)
        assert not is_zombie(pid)
        assert first.session_id is not None
        assert await testbed.sessions.terminate_all() == 1
        assert is_zombie(pid)


async def test_a_stubborn_command_is_killed(tmp_path, stack):
    async with open_command_testbed(tmp_path, stack=stack) as testbed:
        running = await testbed.run(
            "trap '' TERM INT HUP; while :; do sleep 1; done", yield_time_ms=250
        )
        assert running.exit_code is None
        assert testbed.sessions.live_count() == 1
        assert await testbed.sessions.terminate_all() == 1
        assert testbed.sessions.live_count() == 0
        assert not left_alive(testbed.cwd)


async def test_at_the_end_of_the_block_nothing_lives(tmp_path, stack):
    async with open_command_testbed(tmp_path, stack=stack) as testbed:
        await testbed.run("setsid nohup sleep 60 & sleep 60", yield_time_ms=250)
    assert not left_alive(testbed.cwd)


async def test_a_timeout_kills_and_says_so(tmp_path, stack):
    async with open_command_testbed(tmp_path, stack=stack) as testbed:
        done = await testbed.run("echo before; sleep 60", timeout_ms=400)
        assert (done.exit_code, done.session_id) == (124, None)
        assert done.output == "before\n"


async def test_a_cancelled_command_is_killed(tmp_path, stack):
    async with open_command_testbed(tmp_path, stack=stack) as testbed:
        await testbed.sessions.load_environment()
        began = trio.Event()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(testbed.run, "echo; sleep 60", lambda *_: began.set())
            await began.wait()
            nursery.cancel_scope.cancel()
        assert testbed.sessions.live_count() == 0
    assert not left_alive(testbed.cwd)


async def test_each_answer_has_only_what_is_new(tmp_path):
    async with open_command_testbed(tmp_path) as testbed:
        first = await testbed.run(
            "echo one; read x; echo got $x; exit 3", tty=True, yield_time_ms=300
        )
        assert first.output == "one\r\n"
        assert 1000 <= first.session_id <= 99_999
        last = await testbed.sessions.write(first.session_id, "two\n", 10_000)
        assert last.output == "two\r\ngot two\r\n"
        assert (last.exit_code, last.session_id) == (3, None)
        with pytest.raises(
            StdinFailed, match=f"session_id {first.session_id} is of no running command"
        ):
            await testbed.sessions.write(first.session_id, "", 250)


async def test_half_a_character_waits_for_its_rest(tmp_path):
    async with open_command_testbed(tmp_path) as testbed:
        script = r"stty -echo raw; printf 'a\xe2\x82'; read -N1 x; printf '\xac.'"
        first = await testbed.run(script, tty=True, yield_time_ms=500)
        assert first.output == "a"
        assert (await testbed.sessions.write(first.session_id, "x", 10_000)).output == "€."


async def test_a_session_without_a_terminal_has_no_input(tmp_path):
    async with open_command_testbed(tmp_path) as testbed:
        running = await testbed.run("sleep 60", yield_time_ms=250)
        with pytest.raises(StdinFailed, match="rerun exec_command with tty=true"):
            await testbed.sessions.write(running.session_id, "x", 250)


async def test_ctrl_c_reaches_the_command_and_not_the_sandbox(tmp_path, stack):
    async with open_command_testbed(tmp_path, stack=stack) as testbed:
        script = (
            "trap 'echo caught; exit 5' INT; [ -t 0 ] && echo tty; while :; do sleep 0.05; done"
        )
        running = await testbed.run(script, tty=True, yield_time_ms=500)
        assert running.output == "tty\r\n"
        done = await testbed.sessions.write(running.session_id, "\x03", 10_000)
        assert done.output == "^Ccaught\r\n"
        assert done.exit_code == 5


async def test_a_polite_signal_reaches_the_command_inside(tmp_path, stack):
    async with open_command_testbed(tmp_path, stack=stack) as testbed:
        script = "trap 'echo asked; exit 4' TERM; echo up; while :; do sleep 0.05; done"
        running = await testbed.run(script, yield_time_ms=500)
        testbed.sessions._sessions[running.session_id].command.signal(signal.SIGTERM)
        done = await testbed.sessions.write(running.session_id, "", 10_000)
        assert done.output.endswith("asked\n")
        assert done.exit_code == 4


@pytest.mark.parametrize("argv", [("/nowhere/at/all",), ("no-such-program", "x"), ("/etc/passwd",)])
async def test_a_program_that_cannot_run_is_an_answer(tmp_path, argv):
    async with open_command_testbed(tmp_path) as testbed:
        request = ExecRequest(argv=argv, cwd=testbed.cwd, policy=DangerFullAccess())
        with pytest.raises(ExecFailed, match=f"exec_command failed for `{argv[0]}"):
            await testbed.sessions.exec(request)
        with pytest.raises(ExecFailed, match="cwd"):
            await testbed.sessions.exec(
                ExecRequest(argv=("true",), cwd="/nowhere", policy=testbed.policy)
            )
        assert (await testbed.run("echo still here")).output == "still here\n"


async def test_the_sixty_fifth_session_ends_the_one_used_longest_ago_and_the_model_is_told(
    tmp_path,
):
    async with open_command_testbed(tmp_path) as testbed:
        started = []

        async def start():
            started.append(await testbed.run("sleep 60", yield_time_ms=250))

        async with trio.open_nursery() as nursery:
            for _ in range(65):
                nursery.start_soon(start)
        assert testbed.sessions.live_count() == 64
        assert any("you currently have" in one.warning for one in started)
        [told] = [one for one in started if "closed to make room" in one.warning]
        [gone] = [one for one in started if not testbed.sessions.is_open(one.session_id)]
        assert f"session {gone.session_id} " in told.warning
        assert all(one.exit_code is None for one in started)  # none died while its call waited
        with pytest.raises(StdinFailed, match="closed to make room"):
            await testbed.sessions.write(gone.session_id, "", 250)


async def test_a_hundred_commands_at_once_are_each_done_exactly_once(tmp_path, stack):
    done, begun = {}, set()
    async with open_command_testbed(tmp_path, stack=stack, limit_s=60) as testbed:

        async def run(index):
            def hear(text):
                begun.add(index)
                if len(begun) == 64:  # as many as may run: now they may go on
                    (tmp_path / "work/go").touch()

            script = f"echo {index} >>lines; echo {index}; until [ -e go ]; do sleep .1; done"
            done[index] = await testbed.run(script, hear, yield_time_ms=30_000)

        async with trio.open_nursery() as nursery:
            for index in range(100):
                nursery.start_soon(run, index)
    assert {index: (one.exit_code, one.output) for index, one in done.items()} == {
        index: (0, f"{index}\n") for index in range(100)
    }
    assert sorted(map(int, (tmp_path / "work/lines").read_text().split())) == list(range(100))
    assert sum("waited for one of them to end" in one.warning for one in done.values()) == 36


async def test_commands_get_the_environment_that_was_asked_for_once_and_run_without_login(tmp_path):
    asked = []

    async def source():
        asked.append(1)
        return {"PATH": "/usr/bin:/bin", "FROM_PROFILE": "yes", "A_TOKEN": "hush"}

    async with open_command_testbed(tmp_path, SHELL="/bin/bash") as testbed:
        testbed.sessions.set_environment_source(source)
        script = (
            'echo "$FROM_PROFILE|$A_TOKEN|$TERM|$SWARM_THREAD_ID"; shopt -q login_shell || echo no'
        )
        assert (await testbed.run(script)).output == "yes||dumb|agent-1\nno\n"
        assert (await testbed.run("echo fine")).output == "fine\n"
    assert asked == [1]


async def test_a_private_tmp_is_kept_from_one_command_to_the_next(tmp_path, stack):
    if stack == "none":
        return
    async with open_command_testbed(tmp_path, stack=stack) as testbed:
        await testbed.run('echo kept >"$TMPDIR/note"')
        assert (await testbed.run('cat "$TMPDIR/note"')).output == "kept\n"
        assert (tmp_path / "tmp/note").exists()
        if stack == "bwrap":
            assert (await testbed.run("cat /tmp/note")).output == "kept\n"


async def test_another_programs_socket_cannot_be_connected_to(tmp_path, stack):
    if stack == "none":
        return
    with (
        tempfile.TemporaryDirectory(prefix="swarm-agent-", dir="/var/tmp") as folder,
        socket.socket(socket.AF_UNIX) as listener,
    ):
        listener.bind(f"{folder}/S.agent")
        listener.listen()
        call = f"import socket; socket.socket(socket.AF_UNIX).connect('{folder}/S.agent')"
        async with open_command_testbed(tmp_path, stack=stack) as testbed:
            done = await testbed.run(f'{PYTHON} -I -S -c "{call}"')
            assert done.exit_code == 1
            assert "ConnectionRefusedError" in done.output or "PermissionError" in done.output


async def test_no_file_of_the_launcher_reaches_a_command(tmp_path, stack):
    async with open_command_testbed(tmp_path, stack=stack) as testbed:
        done = await testbed.run("ls /proc/self/fd | sort -n | tr '\\n' ' '")
        assert done.output.split()[:3] == ["0", "1", "2"]
        assert len(done.output.split()) == 4  # and the folder that ls reads
