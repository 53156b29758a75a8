"""`swarm mcp tools|call|login|logout`: one request to the hub's own code, in a process of its own.

Usage: python -P -m swarm.worker.parts.mcp.hub_cli, with a `HubOrder` as MessagePack on stdin. It
prints
the reply as MessagePack. Servers start, run in the sandbox and end as they do in a run.
"""

import logging
import signal
import sys
from collections.abc import Mapping
from typing import cast

import msgspec
import trio

from swarm.mailbox.base.bounded_formats import decode_json
from swarm.mailbox.contents.form_values import FormAnswerRefused, form_content
from swarm.mailbox.protocol.elicitation import ElicitationAction
from swarm.mailbox.protocol.hub import AskServers, HubOrder, LoginDone
from swarm.mailbox.protocol.mcp import McpFailure, McpOutcome, McpTool, McpTools
from swarm.mailbox.protocol.server_sampling import SamplingAction, SamplingAnswer

from ...exec.launcher_client import LauncherLink, fork_launcher, open_launcher
from .call_questions import PersonReply
from .handshake import Handshakes
from .hub_process import server_opener, with_names
from .login_flow import log_in, log_out
from .server_logs import ServerLogs
from .server_pool import PooledCall, ServerPool
from .server_questions import ask_servers
from .server_session import ServerFailed, SessionContext

_AGENT = "person"


class GivenAnswers:
    """An `AnswersServers` whose person has answered in advance, or has not: all is declined then.

    There is no model outside of a run.
    """

    def __init__(self, answers: Mapping[str, tuple[str, ...]] | None) -> None:
        self._answers = answers

    async def ask(self, requests: tuple[int, ...], action: ElicitationAction) -> PersonReply:
        """What was not named has its default; no web page is agreed to."""
        if self._answers is None or action.url:
            return _declined(action, "give --answer FIELD=TEXT, or --answer-defaults")
        try:
            content = form_content(action.fields, self._answers)
        except FormAnswerRefused as error:
            return _declined(action, str(error))
        return PersonReply("accept", msgspec.json.encode(content))

    async def sample(self, requests: tuple[int, ...], action: SamplingAction) -> SamplingAnswer:
        """Refuses."""
        return SamplingAnswer(fault="no agent calls this tool, so there is no model to ask")


def _declined(action: ElicitationAction, why: str) -> PersonReply:
    names = ", ".join(one.name for one in action.fields)
    what = action.url or f"a form ({names})"
    sys.stderr.write(f"swarm: {action.server} asked for {what}: declined: {why}\n")
    return PersonReply("decline")


async def _serve(order: HubOrder, link: LauncherLink) -> McpTools | McpOutcome | LoginDone:
    async with open_launcher(link) as launcher, trio.open_nursery() as nursery:
        answers = GivenAnswers(order.answers)
        context = SessionContext(
            order.spec, order.credentials, launcher, ServerLogs(), answers, Handshakes()
        )
        if order.login is not None:
            return await log_in(context, order.spec.servers[0], order.login)
        if order.logout:
            return await log_out(context, order.spec.servers[0])
        opener = server_opener(context)
        servers = order.spec.servers
        pool = ServerPool(servers, opener, nursery)
        reply: McpTools | McpOutcome
        if order.tool:
            arguments = cast("dict[str, object]", decode_json(order.arguments))
            use = PooledCall(order.tool, arguments, _show_progress)
            reply = await pool.call(order.server, _AGENT, use)
        elif order.question is not None:
            names = (order.server,) if order.server else tuple(one.name for one in servers)
            asked = AskServers(request=0, agent=_AGENT, servers=names, question=order.question)
            reply = await ask_servers(pool, asked)
        else:
            reply = await _list(pool, tuple(one.name for one in servers))
        nursery.cancel_scope.cancel()
    return reply


def _show_progress(line: str) -> None:
    return  # the answer is all that is printed


async def _list(pool: ServerPool, names: tuple[str, ...]) -> McpTools:
    found: list[McpTool] = []
    failures: list[McpFailure] = []
    for name in names:
        try:
            found += await pool.list_tools(name, _AGENT)
        except ServerFailed as error:
            failures.append(McpFailure(server=name, reason=str(error)))
    resources = pool.with_resources(names, _AGENT)
    return McpTools(tools=with_names(found), failures=tuple(failures), resources=resources)


def main() -> int:
    """Read the order, serve it, print the reply."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C ends it without a traceback
    logging.disable(logging.CRITICAL)  # the SDK would log a server's own texts
    order = msgspec.msgpack.decode(sys.stdin.buffer.read(), type=HubOrder)
    link = fork_launcher(lifeline_fd=None)  # while there is one thread
    reply = trio.run(_serve, order, link)
    sys.stdout.buffer.write(msgspec.msgpack.encode(reply))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
