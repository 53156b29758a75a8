"""A launcher forked as an agent's first act: it sleeps untouched, works when called, ends alone."""

import subprocess
import sys

LIMIT_S = 60
STORY = """
import os, sys
import trio
from swarm.mailbox.base.after_fork import before_fork, fork_bare, exit_child
from swarm.mailbox.base.after_fork import after_fork_in_child, after_fork_in_parent
from swarm.mailbox.base.process_tree import children_of
from swarm.worker.exec.launcher_client import fork_launcher_early, fork_launcher, open_launcher
from swarm.worker.exec.running_command import CommandRequest, start_command
from swarm.worker.sandbox.sandbox_plan import SandboxPlan

line, writer = os.pipe2(os.O_CLOEXEC)

def live():
    kept = fork_launcher_early(lifeline_fd=line, stderr_fd=2, title="swarm: launcher of /root [x]")
    after_fork_in_child()
    os.close(writer)
    link = fork_launcher(lifeline_fd=line)
    assert link.sock.fileno() == kept
    assert children_of(os.getpid()) == [link.pid]
    {part}

async def command(link):
    async with open_launcher(link) as launcher:
        command = await start_command(launcher, CommandRequest(
            argv=("sh", "-c", "echo $PPID"), cwd="/",
            environment={{"PATH": "/usr/bin:/bin"}}, sandbox=SandboxPlan()))
        said = await command.receive()
        assert int(said) == link.pid, said
        assert len(os.listdir(f"/proc/{{link.pid}}/fd")) < 9  # its own few, not a fork-server's
        command.close()
    print("served", children_of(os.getpid()), flush=True)

others = [os.open(os.devnull, os.O_RDONLY) for _ in range(20)]
before_fork()
pid = fork_bare()
if pid == 0:
    live()
    exit_child(0)
after_fork_in_parent()
{parent}
_, status = os.waitpid(pid, 0)
assert status == 0, status
"""
WAIT_LAUNCHER = """
    print("ended", os.waitpid(link.pid, 0)[1], flush=True)
"""


def tell(part: str, parent: str = "") -> str:
    done = subprocess.run(
        [sys.executable, "-P", "-c", STORY.format(part=part.strip(), parent=parent)],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_it_is_the_agents_only_child_runs_commands_and_goes_with_the_agent():
    assert tell("trio.run(command, link)") == "served []"


def test_one_that_sleeps_already_says_what_it_is():
    part = """
    from pathlib import Path
    folder, title = Path(f"/proc/{link.pid}"), b"swarm: launcher of /root [x]"
    while not (folder / "cmdline").read_bytes().startswith(title):
        pass
    print((folder / "comm").read_text().strip(), flush=True)
    """
    assert tell(part) == "swarm: launcher"


def test_one_that_was_never_called_ends_with_the_life_line():
    assert tell(WAIT_LAUNCHER, parent="os.close(writer)") == "ended 0"


def test_one_that_was_never_called_ends_when_its_agent_lets_go():
    assert tell("link.sock.close()\n" + WAIT_LAUNCHER) == "ended 0"
