#!/bin/sh
# SessionStart: plain text on stdout is context for the model.
git -c core.fsmonitor=false status --short --branch 2>/dev/null | head -n 50
