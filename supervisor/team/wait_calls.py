"""wait_agent on the supervisor's side: look, wait for a change, look again, until the timeout."""

import msgspec
import trio

from swarm.mailbox.ids import AgentPath, resolve_path
from swarm.mailbox.protocol.requests import (
    AnyReply,
    AnyRequest,
    RequestRefused,
    Spawn,
    Spawned,
    TeamMember,
    Waited,
    WaitFor,
)
from swarm.mailbox.team_tool_results import spawn_result, wait_result

from ..agents.agent_directory import AgentDirectory
from ..agents.agent_record import Agent
from ..agents.child_plan import AgentRequestError
from ..agents.lifecycle import AgentLifecycle
from ..fan_out.file_excerpts import split_evenly
from .mail_delivery import MailDelivery
from .wait_decision import decide_wait, result_at_timeout

MAX_TIMEOUT_S = 3_600.0
MAX_TARGETS = 256
_CUT_MARK = "… [cut]"
_RESULT_BYTES = 36_000  # of all results in one output; the mail has them whole


class WaitCalls:
    """Serves waits; one agent may have several at a time."""

    def __init__(self, team: AgentDirectory, post: MailDelivery, lives: AgentLifecycle) -> None:
        self._team, self._mail, self._lifecycle = team, post, lives

    async def wait(self, asker: Agent, wish: WaitFor) -> Waited:
        """Return after `timeout_s` at the latest; 0 only looks. Raises AgentRequestError."""
        if not wish.timeout_s >= 0:  # also refuses NaN
            raise AgentRequestError("timeout_ms must be greater than zero")
        if len(wish.targets) > MAX_TARGETS:
            raise AgentRequestError(f"at most {MAX_TARGETS} targets can be waited for at once")
        targets = [self._find(asker, target) for target in dict.fromkeys(wish.targets)]
        with trio.move_on_after(min(wish.timeout_s, MAX_TIMEOUT_S)):
            while True:
                waited = decide_wait(self._team, asker, targets, wish.mode)
                if waited is not None:
                    # Deliver the mail that the reply refers to before it, so that both are read
                    # together.
                    await self._mail.wait_delivered(asker)
                    return waited
                await self._team.wait_change()
        return result_at_timeout(self._team, asker, targets)

    def _find(self, asker: Agent, target: str) -> Agent:
        member = find_member(self._team, asker, target)
        if member is asker:
            raise AgentRequestError("an agent cannot wait for itself")
        return member

    def resume(self, member: Agent, request: AnyRequest, reply: AnyReply) -> None:
        """The asker has no process now: its next one gets the reply as the call's output."""
        if isinstance(request, Spawn) and isinstance(reply, Spawned):
            answer = spawn_result(request, reply, tells_wait=True)  # a suspended spawn has waited
            self._lifecycle.resume(member, _as_json(answer))
        elif isinstance(reply, Waited):
            ends = _end_rows(reply.finished)
            whole = [one for one in ends if not _is_cut(one["result"])]
            told = {one["agent_name"] for one in whole if one["agent_name"]}
            self._mail.mark_answers_read(member, frozenset(told))
            answer = wait_result(reply, ends=ends, unread=reply.mail)
            self._lifecycle.resume(member, _as_json(answer))
        elif isinstance(reply, RequestRefused):
            self._lifecycle.resume(member, reply.message, success=False)


def find_member(team: AgentDirectory, asker: Agent, reference: str) -> Agent:
    """The agent that `reference` names. Raises AgentRequestError: no valid path, or no agent."""
    try:
        path = resolve_path(reference, base=AgentPath(asker.path))
    except ValueError as error:
        raise AgentRequestError(str(error)) from error
    member = team.find(path)
    if member is None:
        raise AgentRequestError(f"live agent path `{path}` not found")
    return member


def _as_json(answer: dict[str, object]) -> str:
    return msgspec.json.encode(answer).decode()


def _end_rows(members: tuple[TeamMember, ...]) -> list[dict[str, str | None]]:
    shares = split_evenly([len(one.result or "") for one in members], _RESULT_BYTES)
    return [
        {
            "agent_name": one.path,
            "end_state": one.status,
            "result": _cut(one.result, share),
        }
        for one, share in zip(members, shares, strict=True)
    ]


def _cut(text: str | None, share: int) -> str | None:
    return text if text is None or len(text) <= share else text[:share] + _CUT_MARK


def _is_cut(text: str | None) -> bool:
    return text is not None and text.endswith(_CUT_MARK)
