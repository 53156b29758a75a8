#!/usr/bin/env python3
"""PreToolUse, Edit|Write: refuses edits of .env files."""

import json
import pathlib
import sys

path = json.load(sys.stdin)["tool_input"].get("file_path", "")
if pathlib.Path(path).name.startswith(".env"):
    inner = {
        "hookEventName": "PreToolUse",
        "permissionDecision": "deny",
        "permissionDecisionReason": f"{pathlib.Path(path).name} holds secrets",
    }
    json.dump({"hookSpecificOutput": inner}, sys.stdout)
