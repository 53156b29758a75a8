#!/usr/bin/env python3
"""PermissionRequest, Bash: approves one exact command; everything else is asked as before."""

import json
import sys

event = json.load(sys.stdin)
if event["tool_input"]["command"] == "make test":
    decision = {"behavior": "allow"}
    inner = {"hookEventName": "PermissionRequest", "decision": decision}
    json.dump({"hookSpecificOutput": inner}, sys.stdout)
