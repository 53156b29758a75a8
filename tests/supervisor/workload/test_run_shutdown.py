"""How a run is ended: a first Ctrl-C, a second, a third; and two SIGTERM."""

import signal
from types import SimpleNamespace

import pytest
import trio
import trio.testing

from swarm.supervisor.base.run_pauses import WaitMeter
from swarm.supervisor.context.run_life import RunLife
from swarm.supervisor.workload.run_shutdown import RunShutdown

LIMIT_S = 3600  # of the virtual clock: whoever waits so long waits for ever


class Run:
    """One whose agents never end in order, or do; what was done to it stands in `steps`."""

    def __init__(self, *, obeys: bool) -> None:
        self.obeys, self.steps = obeys, list[str]()
        self.agents: dict[str, object] = {}
        self.run_life = RunLife()

    def interrupt_waiting(self) -> None:
        self.steps.append("interrupt waiting")

    async def interrupt(self, agents, reason) -> None:
        self.steps.append("interrupt")

    async def end_all(self) -> None:
        self.steps.append("end all")
        if not self.obeys:
            await trio.sleep_forever()

    async def end_gateway(self) -> None:
        self.steps.append("end gateway")

    async def kill_all(self) -> None:
        self.steps.append("kill all")


async def send_signals(shutdown: RunShutdown, *numbers: int) -> None:
    for number in numbers:
        shutdown.handle_signal(number)
        await trio.testing.wait_all_tasks_blocked()


@pytest.mark.parametrize(
    "numbers",
    [[signal.SIGINT] * 3, [signal.SIGTERM] * 2, [signal.SIGHUP] * 2, [signal.SIGTERM,
     signal.SIGINT, signal.SIGINT]],
    ids=["third-ctrl-c", "second-sigterm", "second-sighup", "ctrl-c-after-sigterm"],
)  # fmt: skip
async def test_who_hurries_waits_for_nobody(autojump_clock, numbers):
    run = Run(obeys=False)
    run.agents = {"/root": _at_work()}
    with trio.fail_after(LIMIT_S):
        async with trio.open_nursery() as nursery:
            shutdown = RunShutdown(run, run, nursery)
            nursery.start_soon(shutdown.carry_out, run.end_gateway, run.kill_all)
            await send_signals(shutdown, *numbers[:-1])
            assert "kill all" not in run.steps
            await send_signals(shutdown, numbers[-1])
            assert run.steps[-1] == "kill all"
            nursery.cancel_scope.cancel()
    assert "end gateway" not in run.steps


async def test_without_hurry_agents_end_first_and_the_gateway_after_them(autojump_clock):
    run = Run(obeys=True)
    with trio.fail_after(LIMIT_S):
        async with trio.open_nursery() as nursery:
            shutdown = RunShutdown(run, run, nursery)
            await shutdown.carry_out(run.end_gateway, run.kill_all)
    assert run.steps == ["end all", "end gateway"]


def _at_work() -> SimpleNamespace:
    return SimpleNamespace(
        plan=SimpleNamespace(slotless=False),
        process=SimpleNamespace(turn="t"),
        turn_ends_pending=0,
        done=trio.Event(),
    )


async def test_a_deadline_stops_while_the_run_waits_for_the_commands_of_other_runs(autojump_clock):
    began, meter = trio.current_time(), WaitMeter()

    async def wait_for_others() -> None:
        for _ in range(2):
            await trio.sleep(20)
            meter.begin(trio.current_time())
            await trio.sleep(100)
            meter.end(trio.current_time())

    with trio.fail_after(LIMIT_S):
        async with trio.open_nursery() as nursery:
            run = Run(obeys=True)
            shutdown = RunShutdown(run, run, nursery)
            nursery.start_soon(wait_for_others)
            nursery.start_soon(
                shutdown.end_at_deadline, 60, lambda: meter.total_s(trio.current_time())
            )
            await shutdown.stop.wait()
    assert shutdown.status == "deadline"
    assert trio.current_time() - began == pytest.approx(60 + 200, abs=1)
