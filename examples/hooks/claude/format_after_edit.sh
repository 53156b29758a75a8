#!/bin/bash
# PostToolUse, Edit|Write: formats the one file that was edited.
file=$(python3 -c 'import json, sys; print(json.load(sys.stdin)["tool_input"]["file_path"])')
[ -f "$file" ] && sed -i 's/[[:blank:]]*$//' "$file"
exit 0
