#!/usr/bin/env python3
"""UserPromptSubmit: withholds a prompt that holds what looks like a key."""

import json
import re
import sys

if re.search(r"\b(?:sk|ghp)[-_][A-Za-z0-9]{16,}", json.load(sys.stdin)["prompt"]):
    json.dump({"decision": "block", "reason": "the prompt holds a key; remove it"}, sys.stdout)
