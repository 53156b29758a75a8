"""A sandboxed command finds a mailbox of its run, and is let in by nobody."""

import shutil
import sys
import tempfile
from pathlib import Path

import pytest
import trio

from support.command_sessions import open_command_testbed
from swarm.mailbox.delivery.router import open_router
from swarm.mailbox.protocol.values.limits import DangerFullAccess, WorkspaceWrite
from swarm.worker.sandbox.sandbox_probe import probe_sandbox

PYTHON = Path(sys.executable).resolve()
ASK = """
import array, socket, sys
with socket.socket(socket.AF_UNIX) as caller:
    try:
        caller.connect(sys.argv[1])
        said, beside, _, _ = caller.recvmsg(1, socket.CMSG_SPACE(4))
        print("let in" if beside else "left outside")
    except OSError as error:
        print("left outside", error)
"""


@pytest.mark.parametrize(
    ("stack", "words"),
    [("none", "let in"), ("landlock", "left outside"), ("bwrap", "left outside")],
)
async def test_only_who_is_in_no_sandbox_is_let_in(tmp_path, monkeypatch, stack, words):
    if stack == "bwrap" and shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed")
    if stack != "none":
        facts = probe_sandbox()
        monkeypatch.setattr(type(facts), "stack", property(lambda _: stack))
    with trio.fail_after(30), tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        async with (
            open_router(f"ipc://{folder}/s", accept=lambda peer: 1),
            open_command_testbed(tmp_path, stack=stack) as testbed,
        ):
            testbed.policy = (
                DangerFullAccess() if stack == "none" else WorkspaceWrite(network_access=True)
            )
            script = f"cat >ask.py <<'END'\n{ASK}\nEND\n{PYTHON} -I -S ask.py {folder}/s"
            done = await testbed.run(script)
            assert done.output.startswith(words), done.output
