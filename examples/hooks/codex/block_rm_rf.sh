#!/bin/sh
# PreToolUse, Bash: exit code 2 blocks, and stderr is the reason.
if grep -qE '"command":"[^"]*\brm +-(rf|fr|r +-f|f +-r)\b'; then
    echo "rm -rf is not allowed here: name the files, or ask" >&2
    exit 2
fi
