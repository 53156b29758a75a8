"""The words that start a hook name nothing that its sandbox may hide."""

from pathlib import Path

import swarm.worker.parts.hooks
from swarm.mailbox.protocol.hooks import Hook, HttpHook
from swarm.worker.parts.hooks.hook_argv import hook_argv


def test_a_hook_that_asks_an_address_needs_no_file_of_the_installation():
    action = HttpHook(url="http://127.0.0.1:1/")
    hook = Hook(hook_id="0123456789ab", event="PreToolUse", command="post", action=action)
    words = hook_argv(hook, "/", lambda script: ("sh", "-c", script))
    (package,) = swarm.worker.parts.hooks.__path__
    assert not any(word.startswith(package) for word in words)
    assert Path(words[0]).resolve() == Path(words[0])
