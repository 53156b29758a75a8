"""What safety costs: the decision alone, rule files, and one command with decision and sandbox.

Commands are started as an agent's launcher starts them, in a fresh folder under workspace-write,
and compared with a plain `subprocess.run` of the same program, in turns, so that a busy machine
slows both.
"""

import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from measurements import Row

from swarm.mailbox.protocol.values.limits import Limits, WorkspaceWrite
from swarm.roles.rules.rule_loader import load_files
from swarm.worker.exec.command_spawn import spawn_command
from swarm.worker.exec.launcher_protocol import LaunchOrder
from swarm.worker.policy.command_decision import Run, decide_command
from swarm.worker.policy.command_facts import MatchRules, gather_facts
from swarm.worker.policy.rule_matching import rule_matcher
from swarm.worker.sandbox.prepared_command import prepare_command
from swarm.worker.sandbox.sandbox_plan import SandboxPlan, Stack, plan_sandbox
from swarm.worker.sandbox.sandbox_probe import probe_sandbox

EXAMPLE = Path(__file__).parents[2] / "examples" / "default.rules"
LIMITS = Limits(sandbox=WorkspaceWrite())
PROGRAM = "/bin/true"
SCRIPTS = {
    "a word": "ls",
    "three commands": "git status --short && grep -rn TODO src | head -n 20",
    "unreadable": 'for f in *.py; do wc -l "$f"; done',
    "a heredoc": "cat > notes.txt <<'EOF'\n" + "a line of text\n" * 20 + "EOF",
}


def measure(*, quick: bool) -> Iterator[Row]:
    """Every row; about 3 s, quick 1 s."""
    rounds = 30 if quick else 120
    yield rule_files(3 if quick else 9)
    match_rules = rule_matcher(load_files([EXAMPLE]).rules)
    for name, script in SCRIPTS.items():
        yield decision(name, script, match_rules, 10 * rounds)
    yield from overheads("bwrap", 10, match_rules, rounds)
    yield from overheads("landlock", 3, match_rules, rounds)


def rule_files(rounds: int) -> Row:
    times = [_milliseconds(lambda: load_files([EXAMPLE])) for _ in range(rounds)]
    return Row("reading one rule file, once a run", statistics.median(times), 100, "ms")


def decision(name: str, script: str, match_rules: MatchRules, rounds: int) -> Row:
    argv = ["/bin/bash", "-c", script]
    times = [_milliseconds(lambda: _decide(argv, match_rules)) * 1000 for _ in range(rounds)]
    return Row(f"decision alone: {name}", statistics.median(times), 500, "µs")


def overheads(stack: Stack, limit: float, match_rules: MatchRules, rounds: int) -> Iterator[Row]:
    """Decision and sandbox beside the plain call, and the plan's part of it."""
    if stack == "bwrap" and probe_sandbox().stack != "bwrap":
        return
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as tmp:

        def plan() -> SandboxPlan:
            return plan_sandbox(LIMITS.sandbox, cwd=folder, tmp_dir=tmp, stack=stack)

        def guarded() -> None:
            _decide([PROGRAM], match_rules)
            if run_sandboxed(plan(), folder) != 0:
                raise RuntimeError(f"{PROGRAM} failed under {stack}")

        def plain() -> None:
            subprocess.run([PROGRAM], cwd=folder, check=True)

        for warm in (guarded, plain, plan):
            warm()
        pairs = [(_milliseconds(plain), _milliseconds(guarded)) for _ in range(rounds)]
        plans = [_milliseconds(plan) for _ in range(rounds)]
    alone = statistics.median(one for one, _ in pairs)
    extra = statistics.median(both for _, both in pairs) - alone
    yield Row(f"plain subprocess of {PROGRAM}, beside {stack}", alone, 10, "ms")
    yield Row(f"decision and {stack} on top of it, one command", extra, limit, "ms")
    yield Row(f"of that the plan for {stack}", statistics.median(plans), 1, "ms")


def run_sandboxed(plan: SandboxPlan, cwd: str) -> int:
    """As an agent and its launcher do it; returns the exit code."""
    prepared = prepare_command(plan, (PROGRAM,), dict(os.environ), tty=False)
    try:
        order = LaunchOrder(
            token=0,
            argv=prepared.argv,
            cwd=cwd,
            environment=prepared.environment,
            wrapped=prepared.wrapped,
            confinement=prepared.confinement,
        )
        extra = [] if prepared.filter_fd is None else [prepared.filter_fd]
        pid = spawn_command(order, [0, 1, 2, *extra])
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    finally:
        prepared.close()


def _decide(argv: list[str], match_rules: MatchRules) -> None:
    verdict = decide_command(gather_facts(argv, LIMITS, match_rules=match_rules))
    if not isinstance(verdict, Run):
        raise RuntimeError(f"{argv} is not run: {verdict}")


def _milliseconds(act: Callable[[], object]) -> float:
    began = time.perf_counter()
    act()
    return (time.perf_counter() - began) * 1000
