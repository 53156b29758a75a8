"""Fakes for the agent harness: a tool that answers with its name, and an agent spec.

A fake tool does nothing outside of the process; it only waits and returns text.
"""

import msgspec
import trio

from swarm.mailbox.protocol.approvals import CommandAction
from swarm.mailbox.protocol.events import AnyCallDetail, OtherCall
from swarm.mailbox.protocol.items import AnyCall, FunctionCall
from swarm.mailbox.protocol.sampling import ModelInfo, ToolSpec
from swarm.mailbox.protocol.spec import AgentSpec, GatewayAccess, RoleBrief, TeamView
from swarm.mailbox.protocol.values.limits import Limits

from ..policy.command_decision import Ask, PolicyDecision, Run
from ..tools.interface.tool_interface import (
    ABORTED_CALL,
    OnOutput,
    Proposal,
    ToolFailed,
    ToolResult,
)


class FakeToolBehavior(msgspec.Struct, frozen=True, kw_only=True):
    """Behavior of a fake tool."""

    seconds: float = 0.0
    parallel: bool = True
    verdict: PolicyDecision = Run()
    error: str = ""  # set: it fails with this text
    says: str = ""  # emitted as output when it starts
    aborted_text: str = ABORTED_CALL
    changes: tuple[str, ...] | None = None  # paths that it is known to change; None: no file


class FakeTool:
    """Answers `<name> ok`; `runs` holds the times at which it ran."""

    def __init__(self, name: str, manner: FakeToolBehavior | None = None) -> None:
        self.name, self._behavior = name, manner or FakeToolBehavior()
        self.parallel = self._behavior.parallel
        self.aborted_text = self._behavior.aborted_text
        self.runs: list[float] = []

    def describe(self, model: ModelInfo) -> ToolSpec | None:
        return ToolSpec(name=self.name, description="stands in for a tool")

    def accepts(self, call: AnyCall) -> bool:
        return isinstance(call, FunctionCall)

    async def prepare(self, call: AnyCall) -> "FakeTool":
        return self

    @property
    def detail(self) -> AnyCallDetail:
        return OtherCall(argument=self.name)

    def judge(self) -> PolicyDecision:
        return self._behavior.verdict

    def propose(self, ask: Ask) -> Proposal:
        return Proposal(action=CommandAction(argv=(self.name,), cwd="/w"), keys=(self.name,))

    def files_to_watch(self, run: Run) -> tuple[str, ...] | None:
        return self._behavior.changes

    async def run(self, verdict: Run, listen: OnOutput) -> ToolResult:
        self.runs.append(trio.current_time())
        if self._behavior.says:
            listen(self._behavior.says)
        await trio.sleep(self._behavior.seconds)
        if self._behavior.error:
            raise ToolFailed(self._behavior.error)
        return ToolResult(content=f"{self.name} ok")


FAKE_AGENT_SPEC = AgentSpec(
    run_id="run",
    agent_id="0000-aabbccdd",
    path="/root",
    epoch=1,
    role=RoleBrief(),
    limits=Limits(),
    cwd="/w",
    endpoint="ipc://supervisor",
    identity=b"agent-1",
    secret=b"secret",
    gateway=GatewayAccess(endpoint="ipc://gateway", token=b"token"),
    tmp_dir="/t",
    environment={"TZ": "Etc/UTC"},
    team=TeamView(can_spawn=False),
)
