"""The tools as clients see them: names, texts, schemas, annotations."""

from collections.abc import Sequence

import mcp_types as types

from swarm.mailbox.protocol.values.base import Value

from .run_report import RunReport, StatusReport
from .tool_arguments import (
    ApproveToolArguments,
    CodexAnswer,
    CodexReplyArguments,
    CodexToolArguments,
    ResultToolArguments,
    RunToolArguments,
    SendToolArguments,
    StatusToolArguments,
    StopToolArguments,
    json_schema,
)

_CHANGES = types.ToolAnnotations(
    read_only_hint=False, destructive_hint=True, idempotent_hint=False, open_world_hint=True
)
_READS = types.ToolAnnotations(read_only_hint=True, open_world_hint=False)


def _tool(
    name: str, title: str, text: str, shapes: tuple[type[Value], type[Value]],
    hints: types.ToolAnnotations = _CHANGES,
) -> types.Tool:  # fmt: skip
    given, returned = shapes
    return types.Tool(
        name=name, title=title, description=text, input_schema=json_schema(given),
        output_schema=json_schema(returned), annotations=hints,
    )  # fmt: skip


SWARM_TOOLS: tuple[types.Tool, ...] = (
    _tool(
        "swarm_run", "Run a task",
        "Run a task with a coding agent, which may start further agents. Waits for its answer, "
        "unless background is true. The run then waits for more words (swarm_send). Agents work "
        "in a sandbox; an action that needs an approval comes back as approval_needed.",
        (RunToolArguments, RunReport),
    ),
    _tool(
        "swarm_status", "Show runs",
        "The agents of a run, what they do and what waits for an approval; without a run, the list "
        "of runs.",
        (StatusToolArguments, StatusReport), _READS,
    ),
    _tool(
        "swarm_send", "Send words to an agent",
        "Say something to an agent of a run and wait for its answer. One that is working reads it "
        "before its end; a run that has ended goes on.",
        (SendToolArguments, RunReport),
    ),
    _tool(
        "swarm_result", "Wait for an answer",
        "The newest answer of a run's root agent. Waits for it for wait_s seconds; status "
        "working means that there is none yet.",
        (ResultToolArguments, RunReport), _READS,
    ),
    _tool(
        "swarm_approve", "Answer an approval",
        "Answer what waits for an approval, or a question of an agent. Ask the person first: the "
        "action would leave the sandbox, or cannot be undone.",
        (ApproveToolArguments, RunReport),
    ),
    _tool(
        "swarm_stop", "Stop a run",
        "End a run and all its agents, or only stop what runs now. swarm_send goes on with it.",
        (StopToolArguments, RunReport),
    ),
)  # fmt: skip
CODEX_TOOLS: tuple[types.Tool, ...] = (
    _tool(
        "codex", "Codex", "Run a session with a coding agent; its answer is the result.",
        (CodexToolArguments, CodexAnswer),
    ),
    _tool(
        "codex-reply", "Codex Reply", "Go on with a session, by the threadId of its first answer.",
        (CodexReplyArguments, CodexAnswer),
    ),
)  # fmt: skip


def tools_of(*, with_codex: bool) -> Sequence[types.Tool]:
    return (*SWARM_TOOLS, *CODEX_TOOLS) if with_codex else SWARM_TOOLS
