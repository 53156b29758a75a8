"""One try of one task: a fresh repository, a real `swarm run` (or the peer's), and what came of it.

Figures of a run come from its journal, those of the peer from its JSON lines. The run and its
folder are deleted afterwards, unless they are to be kept.
"""

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import cast

import msgspec
from eval_tasks import SWARM, EvalTask, Outcome

from swarm.supervisor.runs.paths import find_user_paths

_CORRECTION = "Your last message looks like a tool call"
_UNREAD = (
    "failed to parse function arguments",
    "unsupported call",
    "unsupported custom tool call",
)
_MORE_S = 60  # beyond a run's own deadline

JsonObject = dict[str, object]


class Settings(msgspec.Struct, frozen=True):
    """How each try runs."""

    provider: str | None
    model: str | None
    deadline_s: int
    options: tuple[str, ...] = ()  # further ones of the command
    peer: str = ""  # its program; "": swarm
    keep: bool = False


class TryResult(msgspec.Struct):
    """What came of one try. `calls`: that the model made or seems to have meant."""

    task: str
    number: int
    solved: bool
    exit_code: int
    status: str
    calls: int = 0
    parsed: int = 0
    corrections: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    seconds: float = 0.0
    answer: str = ""
    kept: str = ""  # the run and its folder

    @property
    def is_false_success(self) -> bool:
        """Exit code 0 without an answer, or with a call that was not read."""
        return self.exit_code == 0 and (not self.answer.strip() or self.parsed < self.calls > 0)


def run_try(task: EvalTask, number: int, settings: Settings) -> TryResult:
    """Run the task once and check it."""
    folder = Path(tempfile.mkdtemp(prefix=f"swarm-eval-{task.name}-"))
    try:
        _write_repository(folder, task)
        began = time.monotonic()
        if settings.peer:
            result, agents = _run_peer(task, number, folder, settings)
        else:
            result, agents = _run_swarm(task, number, folder, settings)
        result.seconds = round(time.monotonic() - began, 1)
        result.solved = task.is_solved(Outcome(folder, result.answer, agents))
        result.kept = f"{folder} {result.kept}" if settings.keep else ""
        return result
    finally:
        if not settings.keep:
            shutil.rmtree(folder, ignore_errors=True)


def _write_repository(folder: Path, task: EvalTask) -> None:
    for name, text in task.files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    identity = ("-c", "user.name=eval", "-c", "user.email=eval@localhost")
    for words in (("init", "-q"), ("add", "-A"), (*identity, "commit", "-q", "-m", "start")):
        subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True)


# --- swarm ---------------------------------------------------------------------------------------


def _run_swarm(
    task: EvalTask, number: int, folder: Path, settings: Settings
) -> tuple[TryResult, int]:
    chosen = [
        *(("--provider", settings.provider) if settings.provider else ()),
        *(("--model", settings.model) if settings.model else ()),
    ]
    argv = [
        str(SWARM), "run", "--json", "-a", "never", "-C", str(folder),
        "--deadline", f"{settings.deadline_s}s", *chosen, *settings.options, "-p", task.prompt,
    ]  # fmt: skip
    code, lines = _json_lines(argv, folder, settings.deadline_s)
    started = next((line for line in lines if line.get("type") == "thread.started"), {})
    ended = next((line for line in lines if line.get("type") == "run.completed"), {})
    result = TryResult(task.name, number, solved=False, exit_code=code, status="")
    result.status = str(ended.get("status") or "no end")
    result.answer = str(ended.get("result") or "")
    _take_usage(result, ended.get("usage"))
    run = str(started.get("run") or "")
    if run:
        _take_journal(result, find_user_paths(dict(os.environ)).runs / run / "journal")
        result.kept = run
        if not settings.keep:
            subprocess.run([str(SWARM), "rm", "--yes", run], capture_output=True, check=False)
    return result, _number(ended.get("agents"))


def _take_journal(result: TryResult, journal: Path) -> None:
    """Count the calls of all agents, those that could not be read, and the corrections."""
    for path in sorted(journal.glob("*.jsonl")):
        for line in path.read_bytes().splitlines():
            body = _object(_object(_decode(line)).get("body"))
            item = _object(body.get("item"))
            match body.get("type"), item.get("type"):
                case "item_recorded", "function_call" | "custom_tool_call":
                    result.calls += 1
                    result.parsed += 1
                case "item_recorded", "function_call_output" | "custom_tool_call_output":
                    result.parsed -= str(item.get("output") or "").startswith(_UNREAD)
                case "item_recorded", "message" if _CORRECTION in str(item.get("content")):
                    result.calls += 1
                    result.corrections += 1
                case "turn_failed", _ if body.get("reason") == "unreadable_call":
                    result.calls += 1
                case _:
                    pass


# --- the peer ------------------------------------------------------------------------------------


def _run_peer(
    task: EvalTask, number: int, folder: Path, settings: Settings
) -> tuple[TryResult, int]:
    """`codex exec` with the person's own configuration of it."""
    model = ("-m", settings.model) if settings.model else ()
    argv = [
        settings.peer, "exec", "--json", "-s", "workspace-write", "-C", str(folder), *model,
        *settings.options, task.prompt,
    ]  # fmt: skip
    code, lines = _json_lines(argv, folder, settings.deadline_s)
    result = TryResult(task.name, number, solved=False, exit_code=code, status="completed")
    agents = 1
    for line in lines:
        item = _object(line.get("item"))
        match line.get("type"), item.get("type"):
            case "item.completed", "agent_message":
                result.answer = str(item.get("text") or "")
            case "item.completed", "command_execution" | "file_change" | "mcp_tool_call":
                result.calls += 1
                result.parsed += 1
            case "item.completed", "collab_tool_call":
                result.calls += 1
                result.parsed += 1
                agents += item.get("tool") == "spawn_agent"
            case "turn.completed", _:
                _take_usage(result, line.get("usage"))
            case "turn.failed", _:
                result.status = "failed"
            case _:
                pass
    return result, agents


# --- both ----------------------------------------------------------------------------------------


def _json_lines(
    argv: Sequence[str], folder: Path, deadline_s: int
) -> tuple[int, tuple[JsonObject, ...]]:
    """The exit code (124: it had to be ended), and the JSON lines of the standard output."""
    with subprocess.Popen(
        argv, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        try:
            out, err = process.communicate(timeout=deadline_s + _MORE_S)
        except subprocess.TimeoutExpired:
            process.terminate()
            out, err = process.communicate()
            return 124, _objects(out.splitlines())
    lines = _objects(out.splitlines())
    if not lines:
        told = err.decode("utf-8", "replace").strip()[-600:]
        raise SystemExit(
            f"model-eval: {argv[0]} wrote no JSON (exit code {process.returncode}):\n{told}"
        )
    return process.returncode, lines


def _objects(lines: Iterable[bytes]) -> tuple[JsonObject, ...]:
    return tuple(_object(_decode(line)) for line in lines if line.startswith(b"{"))


def _decode(line: bytes) -> object:
    try:
        return msgspec.json.decode(line)
    except msgspec.DecodeError:
        return None


def _object(value: object) -> JsonObject:
    return cast("JsonObject", value) if isinstance(value, dict) else {}


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0


def _take_usage(result: TryResult, usage: object) -> None:
    table = _object(usage)
    result.input_tokens += _number(table.get("input_tokens"))
    result.output_tokens += _number(table.get("output_tokens"))
