"""The process of `swarm acp`: one editor on stdin and stdout, until it goes."""

import asyncio
import logging
import os
import signal
from collections.abc import Callable
from contextlib import suppress

from acp import AgentSideConnection
from acp.interfaces import Client

from .editor_transport import EditorTransport
from .swarm_agent import SwarmAgent

# A run that is just being started is waited for, so that it does not stay behind.
_CLOSE_LIMIT_S = 75.0


def serve_editor(find_models: Callable[[], tuple[str, ...]]) -> int:
    """Serve until the editor closes stdin, or until a signal; end what its sessions run.

    Args:
        find_models: Names of models to choose from; called once, in a thread.
    """
    logging.getLogger().setLevel(logging.CRITICAL)  # errors are answered; stderr is for people
    with asyncio.Runner() as runner:
        code = runner.run(_serve(find_models))
        # Not by leaving the block, which would wait for the thread that reads stdin: for ever, if
        # the editor does not close it.
        os._exit(code)


async def _serve(find_models: Callable[[], tuple[str, ...]]) -> int:
    models = asyncio.create_task(
        asyncio.to_thread(find_models)
    )  # while the editor introduces itself
    agents: list[SwarmAgent] = []

    def make_agent(client: Client) -> SwarmAgent:
        agents.append(SwarmAgent(models, client))
        return agents[0]

    connection = AgentSideConnection(
        make_agent, EditorTransport(), listening=False, use_unstable_protocol=True
    )
    listening = asyncio.create_task(connection.listen())
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    ended = asyncio.create_task(stopped.wait())
    await asyncio.wait((listening, ended), return_when=asyncio.FIRST_COMPLETED)
    with suppress(TimeoutError):
        await asyncio.wait_for(agents[0].close(), _CLOSE_LIMIT_S)
    return 0
