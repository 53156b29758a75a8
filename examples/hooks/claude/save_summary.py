#!/usr/bin/env python3
"""PostCompact: keeps the summary that took the place of the history."""

import json
import pathlib
import sys

with pathlib.Path("summary.md").open("a", encoding="utf-8") as file:
    file.write(json.load(sys.stdin)["compact_summary"] + "\n")
