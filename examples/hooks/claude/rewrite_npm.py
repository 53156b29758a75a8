#!/usr/bin/env python3
"""PreToolUse, Bash: makes `npm install` into `npm ci`; the changed command is judged anew."""

import json
import re
import sys

event = json.load(sys.stdin)
command = event["tool_input"]["command"]
changed = re.sub(r"\bnpm install\b(?! \S)", "npm ci", command)
if changed != command:
    inner = {"hookEventName": "PreToolUse", "updatedInput": {"command": changed}}
    json.dump({"hookSpecificOutput": inner}, sys.stdout)
