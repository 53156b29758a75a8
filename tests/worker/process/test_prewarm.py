"""What the fork-server does once for all agents: it leaves nothing behind, and nothing to load."""

import subprocess
import sys

LIMIT_S = 60
FORK_SERVER = """
import importlib, os, signal, sys, threading
from swarm.worker.process import fork_server
for name in fork_server.PRELOADED_MODULES:
    importlib.import_module(name)
from swarm.worker.process import page_locality, prewarm

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
from swarm.mailbox.dealer import open_dealer

prewarm.run_session_in_memory()
known = set(sys.modules)

async def dial():
    async with open_dealer("ipc:///tmp/swarm-nobody-listens-here", b"a/x/1", epoch=1):
        pass

trio.run(dial)
prewarm.run_session_in_memory()
print(sorted(set(sys.modules) - known))
"""
BLOCKS = """
import ctypes

libc = ctypes.CDLL(None)
libc.malloc.restype = libc.sbrk.restype = ctypes.c_void_p
libc.malloc.argtypes, libc.sbrk.argtypes = (ctypes.c_size_t,), (ctypes.c_ssize_t,)
prepare()
end = libc.sbrk(0) - 2**18
blocks = [libc.malloc(size) for size in (600, 1500, 5000, 20000) for _ in range(50)]
print(sum(block < end for block in blocks) < 10)
"""
COPIED = """
import gc

def copied_kb():
    # what a child that lives once has as its own
    reader, writer = os.pipe()
    if (pid := os.fork()) == 0:
        prewarm.run_session_in_memory()
        rollup = open("/proc/self/smaps_rollup").read()
        os.write(writer, rollup.partition("Private_Dirty:")[2].split()[0].encode())
        os._exit(0)
    os.waitpid(pid, 0)
    os.close(writer)
    return int(os.read(reader, 64))

prewarm.colocate_code = lambda codes, also: 0
prepare()
gc.freeze()
strewn = copied_kb()
prewarm.colocate_code = page_locality.colocate_code
prepare()
gc.freeze()
gathered = copied_kb()
print(gathered < strewn - 200, (strewn, gathered))
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


def test_after_the_preparation_new_blocks_lie_at_the_end_of_the_heap_not_in_its_gaps():
    assert run(BLOCKS) == ("True", "")


def test_code_that_lies_together_spares_a_child_two_hundred_kilobytes():
    said, complained = run(COPIED)
    assert said.startswith("True"), said
    assert complained == ""


def test_a_preparation_that_fails_says_so_and_harms_nobody():
    said, complained = run(MISHAP)
    assert said == "goes on"
    assert "broken on purpose" in complained
