"""What a seed does to a run: kills, silence, lies, lost frames and supervisors, a person's acts."""

import shutil
import signal
from functools import partial
from pathlib import Path

import trio
from simulated_scenario import Fault, SimulatedScenario
from simulated_world import MemoryChild, SimulatedWorld

from swarm.mailbox.delivery.pair import FrameInTransit
from swarm.mailbox.protocol.control import (
    Approvals,
    EndRun,
    InterruptAgent,
    KillAgent,
    ListApprovals,
    ResolveApproval,
    SendText,
)
from swarm.supervisor.workload.run_shutdown import RunShutdown

_LOOK_S = 2.5  # how often a person looks for questions


class SimulatedFaults:
    """Made once a seed; `run` until cancelled."""

    def __init__(self, story: SimulatedScenario, world: SimulatedWorld, folder: Path) -> None:
        self._story, self._world, self._folder = story, world, folder
        self._person, self._frames = world.rng_for("person"), world.rng_for("frames")
        self._starts = world.rng_for("starts")
        self.supervisor = trio.CancelScope()  # of the present life; replaced by who begins one
        self.ending: RunShutdown | None = None  # likewise
        self.was_stopped = False  # the present life was asked to end
        self._was_continued = False  # a run that waited for input got one
        self._by_frame = [one for one in story.faults
                          if one.kind in {"kill", "silence", "gateway"}]  # fmt: skip
        world.on_frame, world.network_faults, world.start_fault = (
            self._on_frame,
            self._wire,
            self._start,
        )

    async def run(self) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._answer_questions)
            for fault in self._story.faults:
                if fault not in self._by_frame:
                    nursery.start_soon(self._inject_later, fault)

    # --- by frames ------------------------------------------------------------------------------

    def _on_frame(self, name: str, number: int) -> None:
        for fault in tuple(self._by_frame):
            hits = "gateway" if fault.kind == "gateway" else fault.path
            if hits == name and number >= fault.at:
                self._by_frame.remove(fault)
                child = self._world.children[name][-1]
                child.silence() if fault.kind == "silence" else child.kill_group()

    def _wire(self, passage: FrameInTransit) -> tuple[float, ...]:
        wire, dice = self._story.network_faults, self._frames
        if wire.lost and dice.random() < wire.lost:
            return ()
        copies = 2 if wire.doubled and dice.random() < wire.doubled else 1
        late = wire.late and dice.random() < wire.late
        return tuple(dice.uniform(0.0, 1.5) if late else 0.0 for _ in range(copies))

    def _start(self, name: str) -> str:
        if name == "gateway" or self._starts.random() >= self._story.start_faults:
            return ""
        return self._starts.choice(("lost", "refused", "mute"))

    # --- by time --------------------------------------------------------------------------------

    async def _inject_later(self, fault: Fault) -> None:
        await trio.sleep(fault.at)
        ask = self._world.control.ask
        match fault.kind:
            case "kill_at" | "hello" | "gateway_at":
                name = "gateway" if fault.kind == "gateway_at" else fault.path
                lives = self._world.children.get(name, [])
                if lives and lives[-1].is_alive:
                    await self._inject_into_child(fault, lives[-1])
            case "supervisor":
                self.kill_supervisor()
            case "stop" | "ctrl_c":
                self.send_signal(signal.SIGTERM if fault.kind == "stop" else signal.SIGINT)
            case "say":
                await ask(SendText(agent=fault.path, text="A word from a person."))
            case "interrupt":
                await ask(InterruptAgent(agent=fault.path))
            case "end":
                await ask(KillAgent(agent=fault.path))
            case "vanish":
                state = self._folder.parent.parent
                shutil.rmtree(state / fault.path, ignore_errors=True)
            case _:
                raise AssertionError(fault)

    async def _inject_into_child(self, fault: Fault, child: MemoryChild) -> None:
        if fault.kind == "hello":
            await child.say_hello_again()
        else:
            child.kill_group()

    def send_signal(self, number: int) -> None:
        """A signal to the supervisor that lives now; it ends in order, and is resumed."""
        if self.ending is not None and not self.supervisor.cancel_called:
            self.was_stopped = True
            self.ending.handle_signal(number)

    def kill_supervisor(self) -> None:
        """As by SIGKILL: what the disk holds at this moment is all that is left."""
        if self.supervisor.cancel_called or not self._folder.exists():
            return
        kept = self._folder.with_name("kept-as-it-was")
        shutil.copytree(self._folder, kept)
        self.supervisor.cancel()

    def restore_disk(self) -> bool:
        """Put the disk back as it was; False if the supervisor left by itself."""
        kept = self._folder.with_name("kept-as-it-was")
        if not kept.exists():
            return False
        shutil.rmtree(self._folder)
        kept.rename(self._folder)
        return True

    # --- the person -----------------------------------------------------------------------------

    async def _go_on_or_end(self) -> None:
        """A run that waits for input after an interrupt gets one; the next time it is ended."""
        ask, was_continued = self._world.control.ask, self._was_continued
        self._was_continued = True
        await ask(EndRun() if was_continued else SendText(agent="/root", text="Go on."))

    async def _answer_questions(self) -> None:
        dice = self._person
        async with trio.open_nursery() as nursery:
            while True:
                await trio.sleep(_LOOK_S)
                if self.ending is not None and self.ending.is_idle:
                    await self._go_on_or_end()
                found = await self._world.control.ask(ListApprovals())
                if not isinstance(found, Approvals):
                    continue
                for entry in found.entries:
                    answer = ResolveApproval(
                        approval_id=entry.approval_id,
                        approve=dice.random() < 0.7,
                        scope=dice.choice(("once", "once", "session")),
                        reason="because",
                    )
                    nursery.start_soon(partial(self._world.control.ask, answer))
