"""wait_agent on the supervisor's side: look, wait for a change, look again, until the timeout.

A wait ends at once if its result is there already, and never stays open for what cannot come any
more: an agent that ended, however it ended, counts as finished.
"""

from collections.abc import Sequence
from typing import Literal

import msgspec
import trio

from swarm.mailbox.base.ids import AgentPath, resolve_path
from swarm.mailbox.contents.team_tool_results import spawn_result, wait_result
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

from ..agents.agent_directory import AgentDirectory
from ..agents.agent_record import Agent
from ..agents.child_plan import AgentRequestError
from ..agents.life.lifecycle import AgentLifecycle
from ..agents.life.mail_delivery import MailDelivery
from ..base.file_excerpts import split_evenly

MAX_TIMEOUT_S = 3_600.0
MAX_TARGETS = 256
_CUT_MARK = "… [cut]"
_RESULT_BYTES = 36_000  # of all results in one output; the mail has them whole


class WaitCalls:
    """Serves waits; one agent may have several at a time."""

    def __init__(self, team: AgentDirectory, mail: MailDelivery, lifecycle: AgentLifecycle) -> None:
        self._team, self._mail, self._lifecycle = team, mail, lifecycle

    async def wait(self, asker: Agent, request: WaitFor) -> Waited:
        """Return after `timeout_s` at the latest; 0 only looks. Raises AgentRequestError."""
        if not request.timeout_s >= 0:  # also refuses NaN
            raise AgentRequestError("timeout_ms must be greater than zero")
        if len(request.targets) > MAX_TARGETS:
            raise AgentRequestError(f"at most {MAX_TARGETS} targets can be waited for at once")
        targets = [self._find(asker, target) for target in dict.fromkeys(request.targets)]
        with trio.move_on_after(min(request.timeout_s, MAX_TIMEOUT_S)):
            while True:
                waited = decide_wait(self._team, asker, targets, request.mode)
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
            reported = {one["agent_name"] for one in whole if one["agent_name"]}
            self._mail.mark_answers_read(member, frozenset(reported))
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


def decide_wait(
    team: AgentDirectory,
    asker: Agent,
    targets: Sequence[Agent],
    mode: Literal["any", "all"],
) -> Waited | None:
    """The result now; None: keep waiting.

    Without targets, `any` waits for a new end of any child or for any mail, `all` for all children.
    With targets it waits for their ends. Mail that is no child's answer ends every wait, and so
    does a person's input.
    """
    watched = list(targets) if targets else list(team.children_of(asker.path))
    finished = [one for one in watched if not one.is_active]
    if targets or mode == "all":
        over = len(finished) == len(watched) if mode == "all" else bool(finished)
    else:
        finished = [one for one in finished if one.ends_reported < one.end_count]
        over = bool(finished) or bool(asker.unread_mail)
    if over and mode == "all" and not targets:
        finished = watched = team.all_children_of(asker.path)
    if over or _has_person_input(asker) or _has_message(asker):
        return _make_result(team, asker, watched, finished, timed_out=False)
    if not team.others_active(asker.path):  # no other agent could still write or finish
        rest = [one for one in watched if not one.is_active]
        return _make_result(team, asker, watched, rest, timed_out=False)
    return None


def result_at_timeout(team: AgentDirectory, asker: Agent, targets: Sequence[Agent]) -> Waited:
    """The result at the timeout: who has finished all the same, and who still works."""
    watched = list(targets) if targets else list(team.children_of(asker.path))
    finished = [one for one in watched if not one.is_active] if targets else []
    return _make_result(team, asker, watched, finished, timed_out=True)


def _has_person_input(asker: Agent) -> bool:
    return bool(asker.pending_inputs or asker.undelivered_inputs)


def _has_message(asker: Agent) -> bool:
    return any(mail.kind != "final_answer" for mail in asker.unread_mail.values())


def _make_result(
    team: AgentDirectory,
    asker: Agent,
    watched: Sequence[Agent],
    finished: Sequence[Agent],
    *,
    timed_out: bool,
) -> Waited:
    for one in finished:
        team.mark_reported(asker, one)
    return Waited(
        timed_out=timed_out,
        finished=tuple(one.as_reply() for one in finished),
        still_running=tuple(one.path for one in watched if one.is_active),
        mail=len(asker.unread_mail),
    )
