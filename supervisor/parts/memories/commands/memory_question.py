"""One question to a model for the memory job: a run without tools, project, hooks and servers.

Usage: python -P -m swarm.supervisor.parts.memories.commands.memory_question, with a `Question` as
JSON on
stdin; an `Asked` as JSON on stdout.
"""

import os
import sys
import tempfile
from contextlib import redirect_stdout
from pathlib import Path

import msgspec

from swarm.mailbox.base.after_fork import disable_core_dumps
from swarm.mailbox.base.errors import SwarmError
from swarm.mailbox.parts.memories.memory_messages import RunMemories
from swarm.mailbox.protocol.records import RunCompleted
from swarm.mailbox.protocol.settings import ToolChoice
from swarm.mailbox.protocol.spec import RoleBrief
from swarm.mailbox.protocol.values.base import Value

from ....clients.cli.run_setup.options import RunOptions
from ....request.run_request import McpSettings, RunRequest, SkillSet
from ....runs.paths import UserPaths, find_user_paths, make_private_folder
from ..memory_paths import MemoryPaths
from ..model_extraction import Asked

_DEADLINE = "10m"
_INSTRUCTIONS = "You write notes on finished work. Answer with the wanted JSON alone."


class Question(Value):
    prompt: str
    schema: dict[str, object]
    provider: str | None = None
    model: str | None = None
    budget_tokens: int = 0
    budget_usd: float = 0.0
    keys: dict[str, str] = {}  # of providers, by variable


def ask(question: Question, places: UserPaths) -> Asked:
    """Run it to its end. Raises SwarmError."""
    from ....clients.cli.commands.run_command import prepare_run

    scratch = make_private_folder(MemoryPaths(places).scratch)
    with tempfile.TemporaryDirectory(dir=scratch) as folder:
        schema = Path(folder, "schema.json")
        schema.write_bytes(msgspec.json.encode(question.schema))
        work = Path(folder, "empty")
        work.mkdir()
        options = RunOptions(
            prompt=question.prompt, cd=str(work), sandbox="read-only", approval="never",
            reviewer="nobody", max_agents=1, deadline=_DEADLINE, ephemeral=True,
            output_schema=str(schema), provider=question.provider, model=question.model,
            budget_tokens=question.budget_tokens, budget_usd=question.budget_usd,
            disable=("memories",),
        )  # fmt: skip
        request = _bare(prepare_run(options, {**os.environ, **question.keys}).request)
        completed = _run(request, places)
    tokens, usd = completed.usage.total_tokens, completed.usd or 0.0
    if completed.status != "completed":
        failure = f"the run ended {completed.status}: {completed.message}"[:300]
        return Asked(tokens=tokens, usd=usd, failure=failure)
    return Asked(text=completed.result or "", tokens=tokens, usd=usd)


def _bare(request: RunRequest) -> RunRequest:
    """The request without all that a person set up for work in projects."""
    role = RoleBrief(
        name="memory", base_instructions=_INSTRUCTIONS, tools=ToolChoice(only=()), locked=True
    )
    inherited = msgspec.structs.replace(
        request.inherited, hooks=(), user_instructions="", guidance_files=()
    )
    return msgspec.structs.replace(
        request, role=role, inherited=inherited, mcp=McpSettings(), mcp_credentials={},
        skill_set=SkillSet(), commands=(), notify=(), network=None,
        parts=msgspec.structs.replace(request.parts, memories=RunMemories()),
    )  # fmt: skip


def _run(request: RunRequest, places: UserPaths) -> RunCompleted:
    """Run it without showing anything. Raises SwarmError."""
    import trio

    from ....base.silent_display import SilentDisplay
    from ....processes.early_start import start_early
    from ....run import run_to_end

    processes = start_early(secrets=tuple(request.keys.values()))
    try:
        processes.complete()
        return trio.run(run_to_end, request, SilentDisplay(), processes, places)
    finally:
        processes.close()


def main() -> int:
    disable_core_dumps()  # before there are keys in this process
    question = msgspec.json.decode(sys.stdin.buffer.read(), type=Question)
    try:
        with redirect_stdout(sys.stderr):
            answer = ask(question, find_user_paths(dict(os.environ)))
    except (SwarmError, OSError) as error:
        answer = Asked(failure=str(error)[:300])
    sys.stdout.buffer.write(msgspec.json.encode(answer))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
