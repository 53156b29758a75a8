"""Dead code, by vulture: what nothing uses, and what pyproject.toml excuses though it is used.

Exit code 1 for either: an excuse that is not needed would hide the next name that nobody uses.
"""

import sys
import tomllib
from pathlib import Path

from vulture import Vulture


def main() -> int:
    """Print each unused name that `[tool.vulture]` does not excuse, and each needless excuse."""
    settings = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["tool"]["vulture"]
    search = Vulture(ignore_decorators=settings["ignore_decorators"])
    search.scavenge(settings["paths"])
    unused = search.get_unused_code(min_confidence=settings["min_confidence"])
    excused = set(settings["ignore_names"])
    dead = [item.get_report() for item in unused if item.name not in excused]
    needless = sorted(excused - {item.name for item in unused})
    excuses = [f"pyproject.toml: {name!r} is used; excuse it no more" for name in needless]
    print(*dead, *excuses, sep="\n", end="\n" if dead or excuses else "")
    return int(bool(dead or needless))


if __name__ == "__main__":
    sys.exit(main())
