"""The words that start a hook's process."""

import os
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import assert_never

import msgspec

from swarm.mailbox.protocol.hooks import CommandHook, Hook, HttpHook, McpHook, PromptHook
from swarm.roles.parts.hooks.hook_arguments import hook_words

_POST_PROGRAM = Path(__file__).with_name("http_post.py")


def hook_argv(
    hook: Hook, folder: str, shell_argv: Callable[[str], tuple[str, ...]]
) -> tuple[str, ...]:
    """The program and its words; `shell_argv` makes those of a script.

    Raises ValueError: the hook starts no process.
    """
    match hook.action:
        case CommandHook(args=None):
            return shell_argv(hook.command)
        case CommandHook():
            return hook_words(hook, folder)
        case HttpHook() as action:
            config = {
                "url": action.url, "headers": action.headers,
                "variables": action.variables, "timeout_s": hook.timeout_s,
            }  # fmt: skip
            text = msgspec.json.encode(config).decode()
            return (os.path.realpath(sys.executable), "-I", "-c", _post_program(), text)
        case McpHook() | PromptHook():
            raise ValueError(f"{hook.command} starts no process")
        case _:
            assert_never(hook.action)


@cache
def _post_program() -> str:
    """Its text: the sandbox has a /tmp of its own, which hides an installation below /tmp."""
    return _POST_PROGRAM.read_text("utf-8")
