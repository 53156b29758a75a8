"""What the search for dead code passes over is there: a stale entry would hide other names."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_every_name_that_the_search_passes_over_is_in_the_code():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["vulture"]
    words = {
        word
        for folder in settings["paths"]
        for path in (ROOT / folder).rglob("*.py")
        for word in re.findall(r"\w+", path.read_text(encoding="utf-8"))
    }
    assert [name for name in settings["ignore_names"] if name not in words] == []
