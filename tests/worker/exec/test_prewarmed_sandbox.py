"""A shell that waits becomes exactly the command it is told of, and waits only where that is so."""

import shutil
import subprocess
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.mailbox.protocol.values.limits import NetworkPolicy, ResourceLimits
from swarm.worker.exec.launcher_protocol import CommandLimits
from swarm.worker.exec.prewarmed_sandbox import can_prewarm, render_exec_script
from swarm.worker.exec.running_command import CommandRequest
from swarm.worker.sandbox.sandbox_plan import SandboxPlan

ENV = shutil.which("env") or "/usr/bin/env"
TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",)), max_size=200)
REQUEST = CommandRequest(
    argv=("/bin/bash", "-c", "true"),
    cwd="/work",
    environment={"PATH": "/usr/bin:/bin", "HOME": "/home/ada"},
    sandbox=SandboxPlan(stack="bwrap"),
)


@pytest.fixture(scope="module", params=["sh", "bash"])
def shell(request, tmp_path_factory):
    """The system's `sh`, and bash under that name, as some systems have it."""
    found = shutil.which(request.param)
    if found is None:
        pytest.skip(f"there is no {request.param}")
    link = tmp_path_factory.mktemp("bin") / "sh"
    link.symlink_to(Path(found).resolve())
    return str(link)


def told(shell, argv, environment):
    """What the command prints that a waiting shell became, and what the shell had to say."""
    script = render_exec_script(argv, environment)
    done = subprocess.run([shell], input=script, env=environment, capture_output=True, check=True)
    return done.stdout, done.stderr


@given(text=TEXT, more=TEXT)
def test_every_character_of_a_script_arrives(shell, text, more):
    said, complaint = told(shell, ("/usr/bin/printf", "%s|", text, more), {"PATH": "/usr/bin"})
    assert (said, complaint) == (f"{text}|{more}|".encode(), b"")


@given(
    environment=st.dictionaries(
        st.from_regex(r"[A-Za-z_]\w{0,12}", fullmatch=True).filter(str.isascii)
        | st.sampled_from(["PWD", "OLDPWD", "HOSTNAME", "LINES", "TERM", "HISTFILE", "MAIL", "x"]),
        TEXT,
        max_size=8,
    )
)
def test_the_environment_is_the_one_that_was_given(shell, environment):
    environment = {"PATH": "/usr/bin:/bin", **environment}
    environment = {n: v for n, v in environment.items() if n not in ("_", "SHLVL", "LC_ALL")}
    if not can_prewarm(msgspec.structs.replace(REQUEST, environment=environment)):
        return
    said, _ = told(shell, (ENV, "-0"), environment)
    given = dict(pair.split("=", 1) for pair in said.decode().split("\0") if pair)
    for name in ("_", "SHLVL"):  # every shell sets them for what it starts
        given.pop(name, None)
    assert given == environment


@pytest.mark.parametrize("level", [None, "1", "7"])
def test_a_command_is_as_deep_in_shells_as_without_it(shell, level):
    environment = {"PATH": "/usr/bin:/bin", **({"SHLVL": level} if level else {})}
    inner = ("/bin/bash", "-c", 'echo "$SHLVL"')
    plain = subprocess.run(inner, env=environment, capture_output=True, check=True).stdout
    assert told(shell, inner, environment) == (plain, b"")


@pytest.mark.parametrize("script", ["a\0b", "\udcff", "x" * 40_000, "é" * 20_000])
def test_what_cannot_be_told_at_one_stroke_is_not(script):
    assert render_exec_script(("/bin/bash", "-c", script), {}) is None


def test_a_plain_script_in_bubblewrap_may_wait():
    assert can_prewarm(REQUEST)
    assert can_prewarm(
        msgspec.structs.replace(REQUEST, resources=ResourceLimits(agent_processes=64))
    )


@pytest.mark.parametrize(
    "change",
    [
        {"sandbox": SandboxPlan()},
        {"sandbox": SandboxPlan(stack="landlock")},
        {"sandbox": SandboxPlan(stack="bwrap", proxied=NetworkPolicy())},
        {"sandbox": SandboxPlan(stack="bwrap", links=("/work/.git",))},
        {"sandbox": SandboxPlan(stack="bwrap", committing=("/work/.git",))},
        {"tty": True},
        {"argv": ("ls",)},
        {"limits": CommandLimits(cpu_s=1)},
        {"resources": ResourceLimits(command_s=60)},
        {"resources": ResourceLimits(agent_processes=63)},
        *({"environment": {name: "1"}} for name in ("a.b", "a-b", "IFS", "OPTIND", "BASHX")),
    ],
)
def test_nothing_waits_where_it_could_make_a_difference(change):
    assert not can_prewarm(msgspec.structs.replace(REQUEST, **change))
