"""Fail when a test was skipped that tests/skips.toml does not list with its reason."""

import sys
import tomllib
import xml.etree.ElementTree as ET
from pathlib import Path


def main(report: str) -> int:
    """Read a JUnit report; print every skip that is not allowed; 1 if there is one."""
    allowed = tomllib.loads(Path("tests/skips.toml").read_text(encoding="utf-8"))
    wrong = 0
    for case in ET.parse(report).getroot().iter("testcase"):
        skipped = case.find("skipped")
        if skipped is None:
            continue
        name = f"{case.get('classname')}.{case.get('name')}"
        if not any(listed in name for listed in allowed):
            wrong += 1
            print(f"skipped, but not listed in tests/skips.toml: {name}: {skipped.get('message')}")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
