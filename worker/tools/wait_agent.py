"""wait_agent: wait until agents finish, mail arrives or the time is up.

A wait returns at once when news exists already, including unread mail in this agent's own inbox,
which the supervisor does not know. Its deadline ends it in any case.
"""

from functools import partial
from typing import Annotated, Literal

import msgspec
import trio

from swarm.mailbox.base.ids import is_within
from swarm.mailbox.contents.team_tool_results import wait_result
from swarm.mailbox.protocol.items import AnyCall
from swarm.mailbox.protocol.requests import TeamMember, Waited, WaitFor
from swarm.mailbox.protocol.sampling import ModelInfo

from .interface.function_tool import decode_arguments, described
from .interface.team_client import SHORT_LIMIT_S, TeamInvocation, TeamTool, as_json
from .interface.tool_interface import Invocation, ToolFailed, ToolResult
from .team_status import CUT, finished_agents

DEFAULT_TIMEOUT_MS = 30_000
MIN_TIMEOUT_MS, MAX_TIMEOUT_MS = 10_000, 3_600_000
ANSWER_MARGIN_S = 15.0
MAX_TARGETS = 256
_RESULT_BYTES_A_TOKEN = 3  # of the four bytes per token: the rest is for JSON and escapes


class WaitArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments as the model writes them; Codex has no `targets` and `for`."""

    timeout_ms: Annotated[
        int | None,
        described(
            f"{MIN_TIMEOUT_MS} to {MAX_TIMEOUT_MS}, default {DEFAULT_TIMEOUT_MS}. "
            "Prefer long waits."
        ),
    ] = None
    targets: Annotated[
        tuple[str, ...] | None,
        described("Paths of agents that must end; default: any news."),
    ] = None
    mode: Annotated[
        Literal["any", "all"],
        described("One of them (default), or all."),
    ] = msgspec.field(default="any", name="for")


class WaitAgentTool(TeamTool):
    """The wait_agent tool."""

    name = "wait_agent"
    arguments = WaitArguments
    _output_tokens = 10_000  # limit of one output for the model

    def is_offered(self, model: ModelInfo) -> bool:
        self._output_tokens = model.output_limit_tokens
        return super().is_offered(model)

    async def prepare(self, call: AnyCall) -> Invocation:
        arguments = decode_arguments(call, WaitArguments)
        given = arguments.targets or ()
        if len(given) > MAX_TARGETS:
            raise ToolFailed(f"at most {MAX_TARGETS} targets can be waited for at once")
        targets = tuple(dict.fromkeys(self._team.resolve(one, argument="targets") for one in given))
        if any(is_within(self._team.path, target) for target in targets):
            raise ToolFailed("targets: an agent cannot wait for itself or for those above it")
        request = WaitFor(
            targets=targets, mode=arguments.mode, timeout_s=timeout_s(arguments.timeout_ms)
        )
        return TeamInvocation(describe_wait(request), partial(self._wait, request))

    async def _wait(self, request: WaitFor) -> ToolResult:
        waited = await self._first_news(request)
        known = {member.path for member in waited.finished}
        unread = max(waited.mail - len(known), self._team.inbox.count_other_mail(known))
        room = self._output_tokens * _RESULT_BYTES_A_TOKEN
        ends = finished_agents(waited.finished, limit_bytes=room)
        text = as_json(wait_result(waited, ends=ends, unread=unread))
        for member in waited.finished if len(text.encode()) <= self._output_tokens * 4 else ():
            if member.result is not None and CUT not in text:
                self._team.note_result_shown(member.path, member.result)
        return ToolResult(content=text)

    async def _first_news(self, request: WaitFor) -> Waited:
        """Return the supervisor's reply, or the team's state when the own inbox has news first.

        The first request stays open beside the second, so that an end reported meanwhile is not
        lost.
        """
        replies: list[Waited] = []
        failures: list[ToolFailed] = []
        inbox, news_came = self._team.inbox, False
        ends_count = not request.targets and request.mode == "any"
        async with trio.open_nursery() as nursery:

            async def ask(question: WaitFor) -> None:
                try:
                    replies.append(await self._ask(question))
                except ToolFailed as error:
                    failures.append(error)
                nursery.cancel_scope.cancel()

            async def look() -> None:
                nonlocal news_came
                while not inbox.wants_attention(ends_count=ends_count):
                    await inbox.news.wait()
                news_came = True
                await ask(msgspec.structs.replace(request, timeout_s=0.0))

            if not inbox.wants_attention(ends_count=ends_count):
                nursery.start_soon(ask, request)
            nursery.start_soon(look)
        if not replies:
            raise failures[0]
        return merge_replies(replies, news_came=news_came)

    async def _ask(self, question: WaitFor) -> Waited:
        limit_s = max(question.timeout_s + ANSWER_MARGIN_S, SHORT_LIMIT_S)
        reason = f"waits for {describe_wait(question)}"
        return await self._team.request(question, Waited, limit_s=limit_s, waiting=reason)


def merge_replies(replies: list[Waited], *, news_came: bool) -> Waited:
    """Merge one or two replies that came together. News in the agent's inbox means: no time-out."""
    latest = replies[-1]
    ended: dict[str, TeamMember] = {}
    for reply in replies:
        ended |= {member.path: member for member in reply.finished}
    return Waited(
        timed_out=latest.timed_out and not news_came and not ended,
        finished=tuple(ended.values()),
        still_running=tuple(path for path in latest.still_running if path not in ended),
        mail=latest.mail,
    )


def timeout_s(timeout_ms: int | None) -> float:
    """Return the wait in seconds, within its bounds. Raises ToolFailed if it is not positive."""
    if timeout_ms is None:
        return DEFAULT_TIMEOUT_MS / 1000
    if timeout_ms <= 0:
        raise ToolFailed("timeout_ms must be greater than zero")
    return min(max(timeout_ms, MIN_TIMEOUT_MS), MAX_TIMEOUT_MS) / 1000


def describe_wait(request: WaitFor) -> str:
    """Return a short text for people about what is waited for."""
    if not request.targets:
        return "its agents" if request.mode == "all" else "news of its team"
    if len(request.targets) == 1:
        return request.targets[0]
    return f"{request.mode} of {', '.join(request.targets)}"
