"""What tools say of a run: its status, its tree, its answer and what waits. Pure."""

from collections.abc import Sequence
from typing import Literal

from swarm.mailbox.base.ids import short_id
from swarm.mailbox.protocol.approvals import PendingApproval, QuestionsAction
from swarm.mailbox.protocol.control import AgentView, RunView
from swarm.mailbox.protocol.elicitation import ElicitationAction
from swarm.mailbox.protocol.values.base import Value

from ...base.safe_text import clean_block, clean_line
from ...runs.run_list import RunSummary
from ...views.approval_description import approval_detail_lines, describe_action, describe_cause
from ...views.elicitation_description import questions_of
from ..client import TurnResult

RunStatus = Literal["working", "approval_needed", "completed", "failed", "interrupted"]
_MOST_AGENTS, _MOST_TREE_LINES = 100, 20
_MOST_ANSWER_CHARS = 1 << 20


class AgentReport(Value, omit_defaults=False):
    path: str
    role: str
    state: str
    doing: str = ""  # the tool that runs, with its argument
    tokens: int = 0


class ApprovalReport(Value, omit_defaults=False):
    """One action that waits; the id is the `approval_id` of swarm_approve."""

    id: str
    agent: str
    action: str
    details: tuple[str, ...] = ()
    questions: tuple[str, ...] = ()  # ids; a model asks them instead of an action


class RunReport(Value, omit_defaults=False):
    """The structured content of every tool that concerns one run."""

    run: str
    status: RunStatus
    alive: bool
    text: str = ""  # the agent's answer, or why there is none
    agents: tuple[AgentReport, ...] = ()
    approvals: tuple[ApprovalReport, ...] = ()
    input_tokens: int = 0
    output_tokens: int = 0
    usd: float | None = None


class RunRow(Value, omit_defaults=False):
    run: str
    state: str
    title: str
    cwd: str
    started: float  # Unix seconds


class StatusReport(Value, omit_defaults=False):
    """The structured content of swarm_status: one run, or the list of them."""

    run: RunReport | None = None
    runs: tuple[RunRow, ...] = ()


def report_run(
    run_id: str, view: RunView, turn: TurnResult | None, approvals: Sequence[PendingApproval],
    *, alive: bool,
) -> RunReport:  # fmt: skip
    """`turn`: the end of the turn that is asked about; None while it runs."""
    status: RunStatus = "approval_needed" if approvals else "working"
    text = ""
    if turn is not None:
        status, text = turn.status, clean_block(turn.text)
    if len(text) > _MOST_ANSWER_CHARS:
        text = text[:_MOST_ANSWER_CHARS] + f"… (cut; `swarm result {short_id(run_id)}` has all)"
    usage = view.usage
    return RunReport(
        run=run_id, status=status, alive=alive, text=text,
        agents=tuple(_report_agent(one) for one in view.agents[:_MOST_AGENTS]),
        approvals=() if turn is not None else tuple(map(report_approval, approvals)),
        input_tokens=usage.input_tokens, output_tokens=usage.output_tokens, usd=view.usd,
    )  # fmt: skip


def _report_agent(agent: AgentView) -> AgentReport:
    state = agent.end_state or "ended" if agent.state == "ended" else agent.state
    return AgentReport(
        path=agent.path, role=agent.role, state=state, doing=_doing(agent),
        tokens=agent.usage.total_tokens,
    )  # fmt: skip


def _doing(agent: AgentView) -> str:
    return clean_line(f"{agent.tool} {agent.argument}", limit=120) if agent.tool else ""


def report_approval(pending: PendingApproval) -> ApprovalReport:
    action = pending.request.action
    asks = isinstance(action, QuestionsAction | ElicitationAction)
    questions = tuple(one.id for one in questions_of(action))
    details = approval_detail_lines(pending.request)
    return ApprovalReport(
        id=pending.approval_id, agent=pending.agent, action=describe_action(action),
        details=tuple(details if asks else [describe_cause(pending.request), *details]),
        questions=questions,
    )  # fmt: skip


def report_row(run: RunSummary) -> RunRow:
    return RunRow(
        run=run.run_id, state=run.state, title=clean_line(run.name or run.title, limit=120),
        cwd=run.cwd, started=run.started,
    )  # fmt: skip


def words_of(report: RunReport) -> str:
    """The report as text for a model: the answer alone if there is one."""
    short = short_id(report.run)
    match report.status:
        case "completed":
            return report.text
        case "failed" | "interrupted":
            return f"run {short} {report.status}: {report.text}".rstrip(": ")
        case "working":
            return f"run {short} is working; swarm_result waits for its answer\n" + _agent_lines(
                report.agents
            )
        case "approval_needed":
            lines = [f"run {short} waits; answer with swarm_approve:"]
            for one in report.approvals:
                lines.append(f"{one.id}: {one.agent} wants {one.action}")
                lines += [f"  {line}" for line in one.details]
            return "\n".join(lines)


def _agent_lines(agents: Sequence[AgentReport]) -> str:
    lines = [
        f"{'  ' * (one.path.count('/') - 1)}{one.path.rpartition('/')[2]} {one.state}"
        f"{f': {one.doing}' if one.doing else ''}"
        for one in agents[:_MOST_TREE_LINES]
    ]
    more = len(agents) - len(lines)
    return "\n".join([*lines, f"and {more} more"] if more > 0 else lines)


def tree_text(view: RunView) -> str:
    """The live tree in a few lines, for a progress notification."""
    agents = [_report_agent(one) for one in view.agents]
    head = f"{len(agents) + view.unlisted} agents, {view.usage.total_tokens} tokens"
    waiting = [one for one in view.approvals if one.reviewer == "person"]
    head += f", {len(waiting)} approvals wait" if waiting else ""
    return clean_line(view.title, limit=80) + f" ({head})\n" + _agent_lines(agents)
