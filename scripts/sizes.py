"""The size limit of a file: over 400 lines warns, over 600 fails. Counts tracked Python files."""

import subprocess
import sys
from pathlib import Path

WARN, FAIL = 400, 600


def main() -> int:
    """Print every file over the first limit; 1 if one is over the second."""
    listing = subprocess.run(
        ["git", "ls-files", "*.py"], capture_output=True, text=True, check=True
    ).stdout
    too_long: list[str] = []
    for name in listing.splitlines():
        path = Path(name)
        if not path.is_file():
            continue
        lines = len(path.read_text(encoding="utf-8").splitlines())
        if lines > FAIL:
            too_long.append(f"{name}: {lines} lines, too long (limit {FAIL}): divide it")
        elif lines > WARN:
            print(f"{name}: {lines} lines, long (limit {FAIL})")
    print(*too_long, sep="\n", end="\n" if too_long else "")
    return int(bool(too_long))


if __name__ == "__main__":
    sys.exit(main())
