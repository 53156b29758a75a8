"""Stand-ins for rehearsals: a tool that answers with its name, and the spec of an agent.

Rule guarded: a stand-in does nothing outside of the process; it only waits and tells.
"""

import msgspec
import trio

from swarm.mailbox.protocol.approvals import CommandAction
from swarm.mailbox.protocol.events import AnyCallDetail, OtherCall
from swarm.mailbox.protocol.items import AnyCall, FunctionCall
from swarm.mailbox.protocol.limits import Limits
from swarm.mailbox.protocol.sampling import ModelInfo, ToolSpec
from swarm.mailbox.protocol.spec import AgentSpec, RoleBrief

from .policy.decide import Ask, Run, Verdict
from .tools.errors import ToolFailed
from .tools.spec import ABORTED_CALL, Listen, Outcome, Proposal


class Manner(msgspec.Struct, frozen=True, kw_only=True):
    """How a stand-in tool behaves."""

    seconds: float = 0.0
    parallel: bool = True
    verdict: Verdict = Run()
    error: str = ""  # set: it fails with this text
    says: str = ""  # passed on as output when it starts
    aborted_text: str = ABORTED_CALL


class PropTool:
    """Answers `<name> ok`; `runs` holds the times at which it was run."""

    def __init__(self, name: str, manner: Manner | None = None) -> None:
        self.name, self._manner = name, manner or Manner()
        self.parallel = self._manner.parallel
        self.aborted_text = self._manner.aborted_text
        self.runs: list[float] = []

    def describe(self, model: ModelInfo) -> ToolSpec | None:
        return ToolSpec(name=self.name, description="stands in for a tool")

    def accepts(self, call: AnyCall) -> bool:
        return isinstance(call, FunctionCall)

    async def prepare(self, call: AnyCall) -> "PropTool":
        return self

    @property
    def detail(self) -> AnyCallDetail:
        return OtherCall(argument=self.name)

    def judge(self) -> Verdict:
        return self._manner.verdict

    def propose(self, ask: Ask) -> Proposal:
        return Proposal(action=CommandAction(argv=(self.name,), cwd="/w"), keys=(self.name,))

    async def run(self, verdict: Run, listen: Listen) -> Outcome:
        self.runs.append(trio.current_time())
        if self._manner.says:
            listen(self._manner.says)
        await trio.sleep(self._manner.seconds)
        if self._manner.error:
            raise ToolFailed(self._manner.error)
        return Outcome(content=f"{self.name} ok")


PROP_SPEC = AgentSpec(
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
    gateway_endpoint="ipc://gateway",
    gateway_token=b"token",
    tmp_dir="/t",
    environment={"TZ": "Etc/UTC"},
    can_spawn=False,
)
