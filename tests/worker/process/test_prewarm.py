"""What the fork-server does once for all agents: it leaves nothing behind, and nothing to load."""

import subprocess
import sys

LIMIT_S = 60
FORK_SERVER = """
import importlib, os, signal, sys, threading
from swarm.worker.process import fork_server
for name in fork_server.PRELOADED_MODULES:
    importlib.import_module(name)
from swarm.worker.process import prewarm

def prepare():
    return list(prewarm.run_prewarm_steps())
"""
TRACES = """
def traces():
    return os.listdir("/proc/self/fd"), os.listdir("/proc/self/task"), signal.set_wakeup_fd(-1)

before = traces()
prewarm.run_session_in_memory()
prepare()
assert traces() == before, (traces(), before)
assert threading.active_count() == 1
try:
    os.waitpid(-1, os.WNOHANG)
except ChildProcessError:
    print("clean")
"""
MODULES = """
import trio
from swarm.mailbox.delivery.dealer import open_dealer

prewarm.run_session_in_memory()
known = set(sys.modules)

async def dial():
    async with open_dealer("ipc:///tmp/swarm-nobody-listens-here", b"a/x/1", epoch=1):
        pass

trio.run(dial)
prewarm.run_session_in_memory()
print(sorted(set(sys.modules) - known))
"""
MISHAP = """
def broken(*_, **__):
    raise RuntimeError("broken on purpose")

prewarm.run_agent_lifecycle = broken
prewarm.run_session_in_memory()
print("goes on")
"""


def run(script: str) -> tuple[str, str]:
    """Its output and its complaints, in a process that is like a fork-server."""
    done = subprocess.run(
        [sys.executable, "-P", "-c", FORK_SERVER + script],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=True,
    )
    return done.stdout.strip(), done.stderr


def test_the_preparation_leaves_no_thread_no_descriptor_no_child_and_no_complaint():
    assert run(TRACES) == ("clean", "")


def test_after_the_preparation_a_life_imports_nothing_more():
    assert run(MODULES) == ("[]", "")


def test_a_preparation_that_fails_says_so_and_harms_nobody():
    said, complained = run(MISHAP)
    assert said == "goes on"
    assert "broken on purpose" in complained
