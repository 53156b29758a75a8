"""What machine this is, in the words that a reader of figures needs."""

import os
import platform
import re
import subprocess
from datetime import UTC, datetime
from pathlib import Path


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


def _first(pattern: str, path: str) -> str | None:
    found = re.search(pattern, Path(path).read_text(), re.MULTILINE)
    return found[1] if found else None


def _version() -> str:
    done = subprocess.run(
        ["git", "rev-parse", "--short=12", "HEAD"],
        cwd=Path(__file__).parent, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.stdout.strip()
