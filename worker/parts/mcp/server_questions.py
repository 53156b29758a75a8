"""One question about resources or prompts to one server, or to several at once."""

from typing import cast

import trio

from swarm.mailbox.base.bounded_formats import decode_json_as
from swarm.mailbox.protocol.hub import AskServers
from swarm.mailbox.protocol.mcp import ListMcpResources, McpOutcome, McpText

from .call_result import encode_json
from .server_content import keep_listed
from .server_pool import ServerPool


async def ask_servers(pool: ServerPool, order: AskServers) -> McpOutcome:
    """The answer of the server that the question names, or the joint lists of all.

    A server that fails is named in `failures`, with the reason.
    """
    question = order.question
    if not isinstance(question, ListMcpResources) or question.server:
        return await pool.ask(question.server, order.agent, question)
    answers: dict[str, McpOutcome] = {}

    async def ask(name: str) -> None:
        answers[name] = await pool.ask(name, order.agent, question)

    async with trio.open_nursery() as nursery:
        for name in order.servers:
            nursery.start_soon(ask, name)
    key = "resourceTemplates" if question.templates else "resources"
    return join_lists(key, answers)


def join_lists(key: str, answers: dict[str, McpOutcome]) -> McpOutcome:
    """`{KEY: […], failures?}`, sorted by the name of the server."""
    entries: list[dict[str, object]] = []
    failures: dict[str, str] = {}
    left_out = 0
    for name, outcome in sorted(answers.items()):
        if outcome.state != "completed":
            failures[name] = outcome.message
            continue
        text = next((one.text for one in outcome.parts if isinstance(one, McpText)), "{}")
        body = decode_json_as(text, dict[str, object])
        entries += cast("list[dict[str, object]]", body.get(key, []))
        left_out += cast("int", body.get("left_out", 0))
    kept = keep_listed(entries)
    joined: dict[str, object] = {key: kept}
    if failures:
        joined["failures"] = failures
    if left_out := left_out + len(entries) - len(kept):
        joined["left_out"] = left_out
    return McpOutcome(state="completed", parts=(McpText(text=encode_json(joined)),))
