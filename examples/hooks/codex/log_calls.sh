#!/bin/sh
# PreToolUse: appends the event, one JSON object a line; no output is no opinion.
cat >> calls.jsonl
