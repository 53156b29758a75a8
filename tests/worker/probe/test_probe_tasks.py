"""What `swarm models probe` asks, and what counts as done."""

import json

import pytest

from swarm.mailbox.protocol.items import CustomToolCall, FunctionCall, text_message
from swarm.worker.probe.probe_tasks import probe_tasks

QUOTED = """grep -n "it's \\"here\\"" 'my notes.txt'"""
PATCH = """*** Begin Patch
*** Update File: double.py
@@
-    return number + number
+    return 2 * number
*** End Patch"""
FREEFORM = json.dumps({"input": PATCH})
STEPS = [{"step": "read", "status": "completed"}, {"step": "fix", "status": "in_progress"}]


def call(name, **arguments):
    return FunctionCall(call_id="c", name=name, arguments=json.dumps(arguments))


def broken(name, text):
    return FunctionCall(call_id="c", name=name, arguments=text)


def says(text):
    return text_message("assistant", text)


def fault(test, *items):
    task = next(task for task in probe_tasks() if task.test == test)
    return task.fault(items)


@pytest.mark.parametrize(
    ("test", "item"),
    [
        ("text", says("Ready!")),
        ("tool", call("exec_command", cmd="echo ready")),
        ("tool_quotes", call("exec_command", cmd=QUOTED)),
        ("tool_choice", call("list_dir", dir_path="/srv/data/", depth=3)),
        ("tool_nested", call("update_plan", plan=STEPS)),
        ("tool_follow_up", call("exec_command", cmd="head -n 1 /srv/data/harvest-1987.csv")),
        ("patch", call("apply_patch", input=PATCH)),
        ("patch", CustomToolCall(call_id="c", name="apply_patch", input=FREEFORM)),
        ("schema", says('{"word": "ready"}')),
    ],
)
def test_what_was_asked_for_works(test, item):
    assert fault(test, item) is None


@pytest.mark.parametrize(
    ("test", "items", "words"),
    [
        ("text", [says("  ")], "it said nothing"),
        ("text", [], "it said nothing"),
        ("tool", [says("exec_command(echo ready)")], "no call came; it said 'exec_command"),
        ("tool", [call("shell", cmd="echo ready")], "it called 'shell'"),
        ("tool", [call("exec_command", cmd="echo Ready")], "the command came as 'echo Ready'"),
        ("tool", [call("exec_command", cmd=1)], "do not fit their schema"),
        ("tool", [broken("exec_command", '{"cmd":')], "do not fit their schema"),
        ("tool", [broken("exec_command", "[" * 5_000)], "do not fit their schema"),
        ("tool_quotes", [call("exec_command", cmd="grep it's here")], "the command came as"),
        ("tool_choice", [call("list_dir", dir_path="/srv/data")], "2 deep"),
        ("tool_nested", [call("update_plan", plan=STEPS[:1])], "['completed']"),
        ("tool_follow_up", [call("exec_command", cmd="head FILE")], "'head FILE'"),
        ("patch", [call("apply_patch", input="*** Begin Patch")], "cannot be applied"),
        ("patch", [call("apply_patch", input=PATCH.replace("double.py", "/etc/x"))], "cannot be"),
        ("patch", [call("apply_patch", input=PATCH.replace("2 *", "3 *"))], "something else"),
        ("schema", [says('```json\n{"word":"x"}\n```')], "does not fit"),
        ("schema", [says('{"word":"x","more":1}')], "does not fit"),
    ],
)
def test_what_was_not_done_is_named_and_never_raises(test, items, words):
    found = fault(test, *items)
    assert found is not None
    assert words in found
    assert len(found) < 300
