"""What a command used is measured, also inside bubblewrap, whose first process ends early."""

import pytest
import trio

from support.command_sessions import open_command_testbed
from swarm.worker.exec.exec_outcome import ExecRequest

pytestmark = pytest.mark.live
PROGRAM = """python3 -c '
import time
pages = bytearray(60 << 20)
while time.process_time() < 0.4: pass
' """


class Lease:
    """Notes the end that it is told."""

    memory_bytes: int | None = None
    notice = ""

    def __init__(self):
        self.status, self.ended = None, trio.Event()

    def end(self, status):
        self.status = status
        self.ended.set()


@pytest.mark.parametrize("stack", ["none", "bwrap"])
async def test_processor_time_and_memory_of_a_command_are_known_at_its_end(tmp_path, stack):
    lease = Lease()
    async with open_command_testbed(tmp_path, stack=stack, limit_s=90) as bed:
        argv = ("/bin/sh", "-c", PROGRAM)
        request = ExecRequest(argv=argv, policy=bed.policy, cwd=bed.cwd, yield_time_ms=30_000)
        await bed.sessions.exec(request, None, lease)
        await lease.ended.wait()
    assert lease.status.exit_code == 0
    assert 0.4 <= lease.status.usage.cpu_s < 30
    assert 60 << 20 <= lease.status.usage.peak_bytes < 1 << 30


async def test_a_lease_ends_with_a_session_not_with_the_call_and_once_if_nothing_ran(tmp_path):
    lease, other = Lease(), Lease()
    async with open_command_testbed(tmp_path, limit_s=90) as bed:
        script = ("/bin/sh", "-c", "while [ ! -e go ]; do sleep 0.05; done")
        request = ExecRequest(argv=script, policy=bed.policy, cwd=bed.cwd, yield_time_ms=250)
        done = await bed.sessions.exec(request, None, lease)
        assert done.session_id is not None
        assert not lease.ended.is_set()
        (tmp_path / "work" / "go").touch()
        await lease.ended.wait()
        gone = ExecRequest(argv=script, policy=bed.policy, cwd=str(tmp_path / "nowhere"))
        with pytest.raises(Exception, match="cannot be entered"):
            await bed.sessions.exec(gone, None, other)
        assert other.ended.is_set()
        assert other.status is None
