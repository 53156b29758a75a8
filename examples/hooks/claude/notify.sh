#!/bin/bash
# Notification: a desktop notification where there is one, else a line in a file.
text=$(python3 -c 'import json, sys; print(json.load(sys.stdin)["message"])')
if [ -n "$DBUS_SESSION_BUS_ADDRESS" ] && command -v notify-send > /dev/null; then
    notify-send "agent" "$text"
else
    echo "$text" >> "$CLAUDE_PROJECT_DIR/notifications.txt"
fi
