"""A broker with its answers over a journal that can be held, for the plays of approvals."""

from collections.abc import Callable

from swarm.mailbox.base.errors import SwarmError
from swarm.mailbox.protocol.approvals import (
    ApprovalRequest,
    CommandAction,
    NetworkAction,
)
from swarm.mailbox.protocol.control import Done, Refused, ResolveApproval
from swarm.mailbox.protocol.records import Record
from swarm.mailbox.protocol.requests import Decided
from swarm.mailbox.protocol.values.limits import Limits
from swarm.supervisor.approvals.approval_grants import ApprovalGrants, ApprovalsPast
from swarm.supervisor.approvals.broker import AskSettings, Broker
from swarm.supervisor.approvals.queue.approval_answers import ApprovalAnswers

ME, OTHER = "/root/a", "/root/b"


class HeldJournal:
    """A journal that writes when it is asked to; at once unless it is held."""

    def __init__(self) -> None:
        self.bodies: list[object] = []
        self.held: list[Callable[[], None]] | None = None

    def put(self, body, *, agent, then=None) -> None:
        record = Record(seq=len(self.bodies) + 1, ts=5.0, body=body, agent=agent)

        def write() -> None:
            self.bodies.append(body)
            if then is not None:
                then(record)

        if self.held is None:
            write()
        else:
            self.held.append(write)

    def write_all(self) -> None:
        held, self.held = self.held or [], None
        for write in held:
            write()

    def of(self, kind) -> list:
        return [body for body in self.bodies if isinstance(body, kind)]


class Story:
    """A broker with its answers, and what was sent and saved."""

    def __init__(
        self, *, past: ApprovalsPast | None = None, timeout_s=None, judge=None,
        hooks: frozenset[str] = frozenset(), **limits,
    ) -> None:  # fmt: skip
        self.finished, self.grants = HeldJournal(), ApprovalGrants()
        self.limits = Limits(**{"reviewer": "person", **limits})
        self.saved: list[ApprovalRequest] = []
        self.notified: list[tuple[str, str]] = []
        self.save_fails = False
        self.broker = Broker(
            self.finished.put, lambda path: self.limits, self.grants, past or ApprovalsPast(),
            AskSettings(timeout_s=timeout_s, reviewer=judge,
                        hooks_for=lambda path: hooks if path == ME else frozenset()),
        )  # fmt: skip
        self.answers = ApprovalAnswers(self.broker, self)
        self.spread: list[tuple[int, bool]] = []  # how many prefixes hold, is anybody answered
        self.decided: dict[str, Decided] = {}

    async def save_rule(self, request: ApprovalRequest) -> str:
        if self.save_fails:
            raise SwarmError("others may write it")
        self.saved.append(request)
        return "/home/rules"

    async def spread_rules(self) -> None:
        self.spread.append((len(self.grants.learned), bool(self.decided)))

    def notify_overruled(self, path: str, approval_id: str) -> None:
        self.notified.append((path, approval_id))

    async def ask(self, name: str, request: ApprovalRequest, agent: str = ME) -> None:
        self.decided[name] = await self.broker.decide(agent, request)

    async def say(self, approval_id: str = "a1", **more) -> Done | Refused:
        answer = ResolveApproval(**{"approval_id": approval_id, "approve": True, **more})
        return await self.answers.resolve(answer)


def asks(word: str = "x", **more) -> ApprovalRequest:
    action = CommandAction(argv=("touch", word), cwd="/w")
    return ApprovalRequest(**{"action": action, "cause": "escalation", "keys": (word,), **more})


def host(name: str = "h") -> ApprovalRequest:
    action = NetworkAction(host=name, port=443, protocol="https")
    return ApprovalRequest(action=action, cause="network", keys=(name,))
