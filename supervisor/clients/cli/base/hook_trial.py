"""Runs one hook once for `swarm hooks test`: in the read-only sandbox, with an example's input."""

import os
import signal
import subprocess
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from swarm.mailbox.protocol.hooks import CommandHook, Hook, HookEvent
from swarm.roles.parts.hooks.hook_arguments import hook_words
from swarm.roles.parts.hooks.hook_input import HookSession, ToolUse, encode_input
from swarm.roles.parts.hooks.hook_output import HookEnd
from swarm.roles.parts.hooks.hook_scripts import hook_variables

from ....runs.paths import find_user_paths
from .sandboxed_script import SANDBOX_ARGV

_MAX_BYTES = 1 << 20
_SANDBOX_FAILED = 125
Fields = dict[str, object]
_STOPS: Fields = {"stop_hook_active": False, "last_assistant_message": "done"}
_EXAMPLES: Mapping[HookEvent, Fields] = {
    "SessionStart": {"source": "startup"},
    "PreCompact": {"trigger": "manual", "custom_instructions": ""},
    "PostCompact": {"trigger": "manual", "compact_summary": "a summary"},
    "Notification": {"message": "an example", "notification_type": "permission_prompt"},
    "SessionEnd": {"reason": "other"},
    "Stop": _STOPS,
    "SubagentStop": _STOPS,
}


def example_input(hook: Hook, cwd: Path, use: ToolUse, prompt: str) -> bytes:
    """What the hook would read for this call or prompt."""
    session = HookSession(
        session_id="test", cwd=str(cwd), model="test", permission_mode="default", agent_id="test",
        agent_path="/root", agent_type="default", agent_depth=0,
    )  # fmt: skip
    fields = _example_fields(hook.event, cwd, use)
    if hook.event == "UserPromptSubmit":
        fields["prompt"] = prompt
    return encode_input(hook.event, session, "test", fields)


def _example_fields(event: HookEvent, cwd: Path, use: ToolUse) -> Fields:
    if event in _EXAMPLES:
        return dict(_EXAMPLES[event])
    call: Fields = {
        "tool_name": use.tool_name, "tool_input": use.tool_input, "tool_use_id": "test"
    }  # fmt: skip
    match event:
        case "PreToolUse" | "PermissionRequest":
            return call
        case "PostToolUse":
            return call | {"tool_response": "the output of the call"}
        case "PostToolUseFailure":
            return call | {"error": "the output of the call", "is_interrupt": False}
        case "ApprovalRequested":
            return call | {"message": "an example", "reason": "an example"}
        case "MergeConflict":
            conflict = {
                "path": str(cwd / "a.py"), "agent": "/root/a", "with": ["/root/b"],
                "reason": "an example", "hunks": 1,
            }  # fmt: skip
            return {"conflicts": [conflict], "conflict_count": 1}
        case _:
            return {}


def try_hook(hook: Hook, cwd: Path, payload: bytes) -> HookEnd:
    """Run the hook; nothing of it is left when this returns."""
    folder = hook.folder or str(cwd)
    masks = [word for path in find_user_paths(dict(os.environ)).hidden for word in ("--hide", path)]
    network = ["--network"] if hook.network else []
    argv = [*SANDBOX_ARGV, "-s", "read-only", *network, "-C", folder, *masks]
    environment = {**os.environ, **hook_variables(hook, folder)}
    with (
        tempfile.TemporaryFile() as stdin,
        tempfile.TemporaryFile() as stdout,
        tempfile.TemporaryFile() as stderr,
    ):
        stdin.write(payload)
        stdin.seek(0)
        child = subprocess.Popen(
            [*argv, "--", *_words(hook, folder)], stdin=stdin, stdout=stdout,
            stderr=stderr, env=environment, start_new_session=True,
        )  # fmt: skip
        fault = ""
        try:
            child.wait(hook.timeout_s)
        except subprocess.TimeoutExpired:
            fault = f"hook timed out after {hook.timeout_s:g}s"
        finally:
            with suppress(OSError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
        texts = [_start_of(stream.fileno()) for stream in (stdout, stderr)]
    if child.returncode == _SANDBOX_FAILED:
        fault = fault or f"the sandbox could not be set up: {texts[1].strip()[-500:]}"
    code = child.returncode if child.returncode >= 0 else None
    return HookEnd(exit_code=code, stdout=texts[0], stderr=texts[1], fault=fault)


def _words(hook: Hook, folder: str) -> tuple[str, ...]:
    args = hook.action.args if isinstance(hook.action, CommandHook) else None
    if args is None:
        return ("/bin/sh", "-c", hook.command)
    return hook_words(hook, folder)


def _start_of(fd: int) -> str:
    return os.pread(fd, _MAX_BYTES, 0).decode("utf-8", "replace")
