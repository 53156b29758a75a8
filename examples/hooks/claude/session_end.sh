#!/bin/bash
# SessionEnd: what it prints goes nowhere.
reason=$(python3 -c 'import json, sys; print(json.load(sys.stdin)["reason"])')
echo "ended: $reason" >> "$CLAUDE_PROJECT_DIR/sessions.txt"
