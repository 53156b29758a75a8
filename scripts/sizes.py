"""The size limit of a file: over 300 lines warns, over 400 fails. Counts tracked Python files."""

import subprocess
import sys
from pathlib import Path

WARN, FAIL = 300, 400


def main() -> int:
    """Print every file over the first limit; 1 if one is over the second."""
    listing = subprocess.run(
        ["git", "ls-files", "*.py"], capture_output=True, text=True, check=True
    ).stdout
    worst = 0
    for name in listing.splitlines():
        path = Path(name)
        if not path.is_file():
            continue
        lines = len(path.read_text(encoding="utf-8").splitlines())
        if lines > WARN:
            word = "too long" if lines > FAIL else "long"
            print(f"{name}: {lines} lines, {word} (limit {FAIL})")
        worst = max(worst, lines)
    return int(worst > FAIL)


if __name__ == "__main__":
    sys.exit(main())
