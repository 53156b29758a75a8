"""A hook's `allow` counts only where agents can change nothing that it starts; files are real."""

import hashlib

import msgspec
import pytest

from swarm.mailbox.base.held_programs import find_writable_places
from swarm.mailbox.protocol.hooks import (
    CommandHook,
    Hook,
    HookScript,
    HttpHook,
    McpHook,
    PromptHook,
)
from swarm.mailbox.protocol.values.limits import DangerFullAccess, WorkspaceWrite
from swarm.worker.parts.hooks.hook_hold import why_not_held

ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/bin"}
GUARD_SH = '#!/bin/sh\nif grep -q "git push"; then echo no >&2; exit 2; fi\n'
GUARD_PY = "#!/usr/bin/python3 -I\nimport json, sys, re, pathlib\nprint(json.load(sys.stdin))\n"
ORDINARY = [  # (what an ordinary hook runs, what keeps its `allow` from counting; "" = it counts)
    ("true", ""),
    ("cat > /dev/null", ""),
    ("grep -q push && exit 2 || exit 0", ""),
    ("awk 'END { exit NR > 9 }' || exit 2", ""),
    ("echo '{\"decision\": \"approve\"}'", ""),
    ("tools/guard.sh", ""),
    ("./tools/guard.sh", ""),
    ("sh tools/guard.sh", ""),
    ("bash \"$CLAUDE_PROJECT_DIR\"/tools/guard.sh", ""),
    ("\"$CLAUDE_PROJECT_DIR\"/tools/guard.sh --fast", ""),
    ("tools/guard.py", ""),
    ("/usr/bin/python3 -I tools/guard.py", ""),
    ("python3 -I -c 'import json, sys; json.load(sys.stdin)'", ""),
    ("~/guards/own.sh", ""),
    ("sed -n 1p | grep -q rm", ""),
    ("git rev-parse --abbrev-ref HEAD", ""),
    ("test \"$(git branch --show-current)\" != main || exit 2", ""),
    ("date >> /tmp/log", ""),
    ("c=$(cat); case \"$c\" in *rm*) exit 2;; esac", ""),
    ("timeout 5 tools/guard.sh", ""),
    ("python3 tools/guard.py", "start it with `-I`"),
    ("python3 -m guard", "runs code of the project"),
    ("tools/loose.py", "must start with `#!/usr/bin/python3 -I`"),
    ("node tools/guard.js", "node"),
    ("make -s check", "runs code of the project"),
    ("npm run -s guard", "npm"),
    ("npx eslint --stdin", "npx"),
    ("pytest -q", "pytest"),
    ("uv run tools/guard.py", "uv"),
    ("tools/other.sh", "lies in"),
    ("bash -c \"$(cat tools/guard.sh)\"", "known only when it runs"),
    ("$GUARD", "known only when it runs"),
    ("eval \"$(cat)\"", "known only when it runs"),
    (". tools/other.sh", "lies in"),
    ("tools/calls_make.sh", "runs code of the project"),
    ("tools/starts.py", "subprocess"),
    ("PATH=.:$PATH guard", "PATH="),
    ("cd tools && ./guard.sh", "from a folder that its script enters"),
    ("find . -name x -exec tools/other.sh {} +", "lies in"),
]  # fmt: skip


@pytest.fixture
def place(tmp_path):
    """A trusted project with scripts, and a home of the person's."""
    project, home = tmp_path / "p", tmp_path / "home"
    files = {
        project / "tools/guard.sh": GUARD_SH, project / "tools/guard.py": GUARD_PY,
        project / "tools/loose.py": "#!/usr/bin/env python3\nprint(1)\n",
        project / "tools/starts.py": "#!/usr/bin/python3 -I\nimport subprocess\n",
        project / "tools/calls_make.sh": "#!/bin/sh\nmake -s check\n",
        project / "tools/guard.js": "1\n", home / "guards/own.sh": GUARD_SH,
    }  # fmt: skip
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
    other = project / "tools/other.sh"  # written by an agent, and never trusted
    other.write_text(GUARD_SH)
    other.chmod(0o755)
    held = tuple(
        HookScript(path=str(path), sha256=hashlib.sha256(text.encode()).hexdigest())
        for path, text in files.items()
        if path.is_relative_to(project)
    )
    return project, home, held


def why(command, place, *, policy=None, **more):
    project, home, held = place
    hook = Hook(
        hook_id="h", event="PreToolUse", command=command, folder=str(project), scripts=held, **more
    )
    policy = policy or WorkspaceWrite()
    environment = {**ENVIRONMENT, "HOME": str(home)}
    command = hook.command.replace("~", str(home))
    hook = msgspec.structs.replace(hook, command=command)
    return why_not_held(hook, str(project), environment, find_writable_places(policy, str(project)))


def test_there_are_39_ordinary_hooks():
    assert len(ORDINARY) == 39


@pytest.mark.parametrize(("command", "reason"), ORDINARY)
def test_an_allow_counts_where_all_that_is_started_is_held(command, reason, place):
    said = why(command, place)
    assert bool(said) == bool(reason), said
    assert reason in said


def test_a_script_that_was_not_trusted_is_not_held(place):
    project, home, _ = place
    assert why("tools/guard.sh", (project, home, ()))


@pytest.mark.parametrize(
    "action",
    [HttpHook(url="https://a"), McpHook(server="a", tool="b"), PromptHook(prompt="c")],
)
def test_what_is_no_command_never_allows(action, place):
    assert why("x", place, action=action)


@pytest.mark.parametrize(
    "command",
    ["cat answer", "head -1 answer", "sed -n 1p answer", "ls sub", "find sub", "ls", "git log -1",
     "jq . answer", "cat \"$f\"", "grep x answer", "git show", "awk 1 answer", "cat sub/../answer"],
)  # fmt: skip
def test_a_hook_that_prints_what_agents_wrote_is_not_held(command, place):
    assert why(command, place)
    assert why("cat /etc/hostname", place) == ""


def test_words_without_a_shell_are_judged_alike(place):
    assert why("grep", place, action=CommandHook(args=("-q", "x"))) == ""
    assert why("make", place, action=CommandHook(args=("-s",)))


def test_without_a_sandbox_and_with_an_open_home_nothing_is_held(place):
    assert why("true", place, policy=DangerFullAccess())
    project, _, held = place
    assert "home" in why("true", (project, project, held))


@pytest.mark.parametrize(
    "text",
    ["import os\nos.system('x')", "from os import popen", "exec('x')", "__import__('x')",
     "import helper", "from . import a", "import sys\nsys.path.insert(0, '.')",
     "import importlib", "getattr(x, 'y')()", "import json; json.__builtins__; eval", "("],
)  # fmt: skip
def test_a_program_that_could_start_more_is_not_held(text, place):
    (place[0] / "tools/guard.py").write_text(f"#!/usr/bin/python3 -I\n{text}\n")
    assert why("tools/guard.py", place)
