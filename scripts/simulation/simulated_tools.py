"""What simulated agents act with: two tools that leave a mark outside, so that nothing runs twice
or unapproved without being seen. The tools of the team are the real ones.
"""

import json
from typing import NamedTuple

import trio

from swarm.mailbox.protocol.approvals import CommandAction
from swarm.mailbox.protocol.events import AnyCallDetail, OtherCall
from swarm.mailbox.protocol.items import AnyCall, FunctionCall
from swarm.mailbox.protocol.sampling import ModelInfo, ToolSpec
from swarm.worker.policy.command_decision import Ask, PolicyDecision, Run
from swarm.worker.tools.interface.tool_interface import ABORTED_CALL, OnOutput, Proposal, ToolResult

_ASK_ESCALATION = Ask(
    subject="`risky`", cause="escalation", reason="May I?", then=Run(sandboxed=False)
)


class ToolRun(NamedTuple):
    """A tool ran: whose call, and who had said yes (""; none was needed)."""

    call_id: str
    agent: str
    approved_by: str


class SideEffects:
    """What would be the world: it only grows."""

    def __init__(self) -> None:
        self.tool_runs: list[ToolRun] = []


class SimulatedTool:
    """`work` runs at once, `risky` asks first."""

    parallel, aborted_text = True, ABORTED_CALL

    def __init__(self, name: str, agent: str, outside: SideEffects) -> None:
        self.name, self._agent, self._outside = name, agent, outside

    def describe(self, model: ModelInfo) -> ToolSpec | None:
        return ToolSpec(name=self.name, description="leaves a mark")

    def accepts(self, call: AnyCall) -> bool:
        return isinstance(call, FunctionCall)

    async def prepare(self, call: AnyCall) -> "_Prepared":
        return _Prepared(self, call)


class _Prepared:
    def __init__(self, tool: SimulatedTool, call: FunctionCall) -> None:
        self._tool, self._call = tool, call

    @property
    def detail(self) -> AnyCallDetail:
        return OtherCall(argument=self._tool.name)

    def judge(self) -> PolicyDecision:
        return _ASK_ESCALATION if self._tool.name == "risky" else Run()

    def propose(self, ask: Ask) -> Proposal:
        return Proposal(action=CommandAction(argv=("risky",), cwd="/"), keys=("risky",))

    async def run(self, verdict: Run, listen: OnOutput) -> ToolResult:
        tool, answer = self._tool, verdict.answer
        by = "" if answer is None else f"{answer.by}:{answer.outcome}"
        tool._outside.tool_runs.append(ToolRun(self._call.call_id, tool._agent, by))
        await trio.sleep(json.loads(self._call.arguments)["seconds"])
        return ToolResult(content=f"{tool.name} ok")
