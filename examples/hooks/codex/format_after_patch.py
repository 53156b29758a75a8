#!/usr/bin/env python3
"""PostToolUse, apply_patch: removes blanks at line ends in the files of a patch."""

import json
import pathlib
import re
import sys

event = json.load(sys.stdin)
patch = event["tool_input"]["command"]
for name in re.findall(r"^\*\*\* (?:Add|Update) File: (.+)$", patch, re.MULTILINE):
    path = pathlib.Path(event["cwd"], name.strip())
    lines = path.read_text(encoding="utf-8").splitlines()
    path.write_text("".join(f"{line.rstrip()}\n" for line in lines), encoding="utf-8")
