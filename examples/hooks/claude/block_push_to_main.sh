#!/bin/bash
# PreToolUse with "if": "Bash(git push *)".
if grep -qE '\b(main|master)\b'; then
    echo "push to a branch of your own, not to main" >&2
    exit 2
fi
