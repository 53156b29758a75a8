"""Runs the conversation on a terminal: draws the input line, then loads everything else.

What is typed while the rest is loaded is kept.
"""

import asyncio
import importlib
import os
import signal
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, TextIO, TypeAlias, cast

from ...base.version import VERSION
from ..console.terminal import ColorChoice, decide_color
from .chat_screen import ChatScreen, ScreenContent


class ChatOptions(NamedTuple):
    """What the command line says.

    `run`: the run to open, as a person named it; "" for a new one. `words`: sent at once.
    `run_options`: of `swarm run`, for the runs that this conversation starts. `planning`: the first
    one begins in plan mode. `find_opener`: reads `file_opener`, when all else is drawn.
    """

    run: str = ""
    words: str = ""
    run_options: tuple[str, ...] = ()
    color: str = "auto"
    planning: bool = False
    find_opener: Callable[[], str] = lambda: "none"


TalkOn: TypeAlias = Callable[[ChatScreen, ChatOptions], Awaitable[str]]


def run_chat(options: ChatOptions, *, output: TextIO, history: Path | None) -> int:
    """Talk until the person leaves; the exit code. The terminal is as before afterwards.

    Raises SwarmError if the run that is to be opened does not exist.
    """
    try:
        farewell = asyncio.run(_run(options, output, history))
    except (EOFError, OSError):  # the terminal is gone; the run goes on
        return 129
    if farewell:
        with suppress(OSError):
            output.write(farewell + "\n")
            output.flush()
    return 0


async def _run(options: ChatOptions, output: TextIO, history: Path | None) -> str:
    cwd = Path.cwd()
    where = "".join(sign for sign in str(cwd) if sign.isprintable())
    output.write(f"swarm {VERSION} in {where}\n")
    environment = dict(os.environ)
    coloured = decide_color(
        cast("ColorChoice", options.color), environment=environment, is_terminal=True
    )
    screen = ChatScreen(
        output, history=history, cwd=cwd, environment=environment, coloured=coloured
    )
    screen.show(ScreenContent(region=([],), status=[("class:dim", "/help · Ctrl-C twice leaves")]))
    application = asyncio.create_task(
        screen.application.run_async(set_exception_handler=False, handle_sigint=False)
    )
    talk = asyncio.create_task(_talk(screen, options))
    _end_on_signals(talk)
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGCONT, screen.application.continue_here)
    try:
        await asyncio.wait([application, talk], return_when=asyncio.FIRST_COMPLETED)
        if application.done():
            application.result()  # the terminal is gone
            return ""
        with suppress(asyncio.CancelledError):
            return talk.result()
        return ""
    finally:
        talk.cancel()
        if screen.application.is_running:
            screen.application.exit()
        await asyncio.gather(application, talk, return_exceptions=True)


async def _talk(screen: ChatScreen, options: ChatOptions) -> str:
    """Load the conversation beside the keys: its imports take longer than the first drawing."""
    await asyncio.sleep(0)  # the application draws first
    module = await asyncio.to_thread(importlib.import_module, f"{__package__}.conversation")
    talk_on: TalkOn = module.talk_on
    return await talk_on(screen, options)


def _end_on_signals(talk: asyncio.Task[str]) -> None:
    """A closed terminal and SIGTERM end the conversation, not the run."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, talk.cancel)
