"""mypy checks the keywords of `msgspec.structs.replace`, by either of its names."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
CODE = """\
import msgspec
from msgspec.structs import replace


class Point(msgspec.Struct, frozen=True):
    x: int
    name: str = ""


class Place(Point, frozen=True):
    pass


fits: Place = replace(Place(x=1), name="here")
msgspec.structs.replace(fits, nmae="there")
replace(fits, x="1")
replace(fits, **{"x": "1"})
"""


def test_keywords_of_replace_are_fields_and_their_values_fit(tmp_path):
    (tmp_path / "code.py").write_text(CODE)
    (tmp_path / "mypy.ini").write_text(
        f"[mypy]\nstrict = true\nplugins = {ROOT}/scripts/struct_replace.py\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "code.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    wrong = {int(line) for line in re.findall(r"code.py:(\d+): error", done.stdout)}
    last = CODE.count("\n")
    assert wrong == {last - 2, last - 1, last}, done.stdout + done.stderr


def test_both_checks_of_types_use_the_plugin():
    configured = ((ROOT / one).read_text() for one in ("pyproject.toml", "tests/mypy.ini"))
    assert all("scripts/struct_replace.py" in text for text in configured)
