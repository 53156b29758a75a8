"""What each task of a stuck process waits for: written when the process gets SIGUSR2.

Evidence for a run that did not end; nothing of it is there while a run is sound.
"""

import os
import signal
import time
import traceback
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import CodeType, CoroutineType, FrameType
from typing import TYPE_CHECKING, Any

import trio

if TYPE_CHECKING:
    from chaos_testbed import ChaosTestbed  # the command itself needs none

_MOST_FRAMES = 12


def dump_on_signal(folder: Path) -> None:
    """From now on, SIGUSR2 writes `stacks.<pid>` in the folder; forks inherit that."""

    def dump(_number: int, frame: FrameType | None) -> None:
        with (folder / f"stacks.{os.getpid()}").open("a") as file:
            file.write("".join(traceback.format_stack(frame, _MOST_FRAMES)))
            try:
                root = trio.lowlevel.current_root_task()
            except RuntimeError:
                return
            file.writelines(_tree(root, 0) if root is not None else ())

    signal.signal(signal.SIGUSR2, dump)


def _tree(task: trio.lowlevel.Task, depth: int) -> Iterator[str]:
    yield f"{'  ' * depth}{task.name}: {' < '.join(_places(task.coro))}\n"
    for nursery in task.child_nurseries:
        for child in nursery.child_tasks:
            yield from _tree(child, depth + 1)


def _places(coro: Any) -> list[str]:
    """Where a coroutine stands, innermost first."""
    places: list[str] = []
    while coro is not None and len(places) < 40:
        frame = getattr(coro, "cr_frame", None) or getattr(coro, "ag_frame", None)
        if frame is not None:
            code: CodeType = frame.f_code
            places.append(f"{Path(code.co_filename).name}:{frame.f_lineno} {code.co_name}")
        coro = getattr(coro, "cr_await", None) if isinstance(coro, CoroutineType) else None
    return places[::-1][:_MOST_FRAMES]


def dump_stuck_run(stage: "ChaosTestbed", supervisor: int) -> None:
    """Keep who lives in a stuck run, and have each process of ours write what it waits for."""
    lines: list[str] = []
    titles = {supervisor: "supervisor", **dict(stage.list_processes(supervisor))}
    for pid, title in titles.items():
        with suppress(OSError):
            status = Path(f"/proc/{pid}/status").read_text().splitlines()
            facts = [line for line in status if line.startswith(("State", "PPid"))]
            lines.append(f"{pid} {title[:200]} {facts}\n")
            if pid == supervisor or title.startswith("swarm: "):
                os.kill(pid, signal.SIGUSR2)
    (stage.folder / "living").write_text("".join(lines))
    time.sleep(1)
