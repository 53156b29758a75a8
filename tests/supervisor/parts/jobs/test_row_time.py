"""The time of a table's row does not run while its worker waits for a lease."""

from types import SimpleNamespace

import pytest
import trio

from swarm.supervisor.base.run_pauses import RunPauses
from swarm.supervisor.parts.jobs.service.job_runner import JobRunner


@pytest.mark.parametrize(("works_s", "in_time"), [(55, True), (90, False)])
async def test_only_work_counts(tmp_path, autojump_clock, works_s, in_time):
    pauses, done = RunPauses(), trio.Event()

    async def send_input(*_, **__) -> None:
        return None

    runner = SimpleNamespace(
        _host=SimpleNamespace(pauses=pauses), _agents=SimpleNamespace(send_input=send_input)
    )
    member, item = SimpleNamespace(done=done), SimpleNamespace(path="/root/row")
    job = SimpleNamespace(first_input=lambda item: None)

    async def work() -> None:
        await trio.sleep(30)
        pauses.begin_wait("/root/row")
        await trio.sleep(1_000)
        pauses.end_wait("/root/row")
        await trio.sleep(works_s - 30)
        done.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(work)
        began = trio.current_time()
        assert await JobRunner._work_on(runner, member, job, item, 60.0) is in_time
        took_s = trio.current_time() - began
        nursery.cancel_scope.cancel()
    assert took_s == pytest.approx(1_000 + min(works_s, 60), abs=1)
