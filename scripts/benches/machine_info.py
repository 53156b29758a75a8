"""What machine this is, in the words that a reader of figures needs."""

import os
import platform
import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

_STEAL = 7  # of the fields of the first line of /proc/stat
_LOOP = """
import time
rounds, end = 0, time.perf_counter() + 0.5
while time.perf_counter() < end:
    for _ in range(1000): rounds += 1
print(rounds)
"""


def describe_machine() -> dict[str, str | int | float]:
    """No name, no path and no address of it."""
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "processor": _first(r"^model name\s*: (.+)$", "/proc/cpuinfo") or platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "system": f"{platform.system()} {re.match(r'[0-9.]*', platform.release())[0]}",  # type: ignore[index]
        "python": platform.python_version(),
        "load_before": round(os.getloadavg()[2], 2),  # of the last quarter of an hour
        "version": _version(),
    }


class MachineSpeed:
    """How fast the machine itself was meanwhile: a virtual one shares its host with others."""

    def __init__(self) -> None:
        self._began = _processor_times()
        self.paces: list[float] = []

    def measure(self) -> None:
        """Let every processor run the same loop for half a second, side by side."""
        argv = [sys.executable, "-I", "-S", "-c", _LOOP]
        cores = range(len(os.sched_getaffinity(0)))
        loops = [subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) for _ in cores]
        rounds = [int(loop.communicate()[0]) for loop in loops]
        self.paces.append(round(sum(rounds) / len(rounds) / 5e5, 2))

    def describe(self) -> dict[str, Any]:
        """`paces`: millions of rounds a second on each; `stolen`: per cent, since the beginning."""
        spent = [now - then for then, now in zip(self._began, _processor_times(), strict=True)]
        stolen = 100 * spent[_STEAL] / max(1, sum(spent))
        return {"paces": self.paces, "stolen": round(stolen, 1)}


def describe_speed(told: dict[str, Any]) -> str:
    """One sentence of what `MachineSpeed.describe` says."""
    least, most = min(told["paces"]), max(told["paces"])
    return (
        f"The same loop ran {least} to {most} million rounds a second on each processor, from the "
        f"first bench to the last; the host took {told['stolen']} % of their time."
    )


def _processor_times() -> list[int]:
    return list(map(int, Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]))


def _first(pattern: str, path: str) -> str | None:
    found = re.search(pattern, Path(path).read_text(), re.MULTILINE)
    return found[1] if found else None


def _version() -> str:
    done = subprocess.run(
        ["git", "rev-parse", "--short=12", "HEAD"],
        cwd=Path(__file__).parent, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.stdout.strip()
