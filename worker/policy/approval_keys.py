"""Keys of actions, for approvals that hold longer than once: canonical JSON texts. Pure.

One key names one thing. Two commands share a key only if the same words would run in the same
folder with the same rights; a command outside the sandbox has another key than one inside.

Source: the session cache of the safety sheet (8.5): same fields, same markers.
"""

from collections.abc import Sequence

import msgspec

from swarm.mailbox.protocol.approvals import CommandAction

from .safe_commands import is_system_program
from .shell_parser import Words, plain_commands, shell_script

_SCRIPT_MARK = "__codex_shell_script__"


def canonical_command(argv: Sequence[str]) -> Words:
    """The words that identify a command, however a shell was called to run it."""
    words = tuple(argv)
    script = shell_script(words)
    if script is None or not is_system_program(words[0]):
        return words
    plain = plain_commands(script)
    if plain is not None and len(plain) == 1:
        return plain[0]
    return (_SCRIPT_MARK, words[1], script)


def command_key(action: CommandAction) -> str:
    """The key of a command. One outside the sandbox counts as `require_escalated`."""
    extra = action.extra
    body: dict[str, object] = {
        "tool": "exec_command",
        "command": canonical_command(action.argv),
        "cwd": action.cwd,
        "tty": action.tty,
        "sandbox_permissions": action.permissions if action.sandboxed else "require_escalated",
        "additional_permissions": None if extra is None else msgspec.to_builtins(extra),
    }
    return msgspec.json.encode(body, order="sorted").decode()


def commit_key(repository: str) -> str:
    """The one key of all commands that only record work in this repository."""
    body = {"tool": "exec_command", "commits_in": repository}
    return msgspec.json.encode(body, order="sorted").decode()


def patch_keys(paths: Sequence[str]) -> tuple[str, ...]:
    """One key for each absolute path that a patch touches."""
    bodies = ({"tool": "apply_patch", "path": path} for path in dict.fromkeys(paths))
    return tuple(msgspec.json.encode(body, order="sorted").decode() for body in bodies)
