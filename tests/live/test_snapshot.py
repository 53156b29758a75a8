"""One login shell a run: what it exports, what is withheld; it is asked to go, not shot."""

import pytest
import trio

from swarm.mailbox.base.process_tree import descendants_of
from swarm.supervisor.processes import shell_snapshot
from swarm.supervisor.processes.shell_snapshot import ShellSnapshot, _stop_shell


def environment(home, **more):
    return {"PATH": "/usr/bin:/bin", "HOME": str(home), "SHELL": "/bin/bash", **more}


async def test_the_profile_is_read_once_for_all_who_ask(tmp_path):
    (tmp_path / ".profile").write_text("echo noise; echo x >>~/count; export FROM_PROFILE=yes\n")
    snapshot = ShellSnapshot(environment(tmp_path), withheld=())
    found = []

    async def ask():
        found.append((await snapshot.get())["FROM_PROFILE"])

    with trio.fail_after(20):
        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(ask)
    assert found == ["yes"] * 5
    assert (tmp_path / "count").read_text() == "x\n"


async def test_a_profile_that_sets_path_again_hides_no_folder_of_an_activated_environment(tmp_path):
    (tmp_path / ".profile").write_text("export PATH=/usr/bin:/opt/x/bin:. VIRTUAL_ENV=/other\n")
    given = environment(tmp_path, VIRTUAL_ENV="/venv") | {"PATH": "/venv/bin:/usr/bin:/bin"}
    with trio.fail_after(20):
        found = await ShellSnapshot(given, withheld=()).get()
    assert found["PATH"].split(":")[:3] == ["/venv/bin", "/usr/bin", "/bin"]
    assert found["PATH"].split(":")[-1] == "/opt/x/bin"
    assert found["VIRTUAL_ENV"] == "/venv"


async def test_a_key_that_a_profile_exports_is_withheld(tmp_path):
    (tmp_path / ".profile").write_text("export OPENAI_API_KEY=sk-secret OTHER=1\n")
    with trio.fail_after(20):
        found = await ShellSnapshot(environment(tmp_path), withheld={"OPENAI_API_KEY"}).get()
    assert "OPENAI_API_KEY" not in found
    assert found["OTHER"] == "1"


@pytest.mark.parametrize(
    ("profile", "why"),
    [
        ("exit 3\n", "ended with 3 before"),
        ("set -e; export A=1; false\n", "ended with 1 before"),
        ("exec sleep 60\n", "took over 1 s to start"),
        ("head -c 2000000 /dev/zero | tr '\\0' x\n", "printed more than 1 MiB"),
    ],
)
async def test_a_profile_that_breaks_off_leaves_what_was_given_and_that_is_told_once(
    tmp_path, profile, why, monkeypatch
):
    monkeypatch.setattr(shell_snapshot, "_TIMEOUT_S", 1.0 if "sleep" in profile else 5.0)
    (tmp_path / ".profile").write_text(profile)
    snapshot = ShellSnapshot(environment(tmp_path, GIVEN="1"), withheld=())
    with trio.fail_after(20):
        found = await snapshot.get()
    assert found["GIVEN"] == "1"
    told = snapshot.take_problem()
    assert f"/bin/bash {why}" in told
    assert (await snapshot.get(), snapshot.take_problem()) == (found, "")


async def test_a_shell_that_tells_its_environment_gives_nothing_to_tell(tmp_path):
    (tmp_path / ".profile").write_text("set -e; export A=1; true\n")
    snapshot = ShellSnapshot(environment(tmp_path), withheld=())
    with trio.fail_after(20):
        assert (await snapshot.get())["A"] == "1"
    assert snapshot.take_problem() == ""


async def test_a_shell_that_must_go_can_clean_up_with_all_it_started(tmp_path):
    script = f"trap 'rm {tmp_path}/lock; exit' TERM; touch {tmp_path}/lock; sleep 60 & wait"
    with trio.fail_after(20):
        shell = await trio.lowlevel.open_process(["/bin/bash", "-c", script])
        while not (tmp_path / "lock").exists():  # noqa: ASYNC110  a fact outside of Trio
            await trio.sleep(0.01)
        await _stop_shell(shell)
    assert not (tmp_path / "lock").exists()
    assert shell.returncode is not None
    assert descendants_of(shell.pid) == []
