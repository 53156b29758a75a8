"""Wires the parts of the conversation. Loaded after the input line has been drawn."""

import asyncio
import os
from pathlib import Path
from typing import cast

from swarm.mailbox.base.ids import short_id

from ...runs.paths import find_run, find_user_paths, paths_of_run
from ..client.live_run import LiveRun
from ..console.file_links import FileLinks, FileOpener
from ..console.terminal import ColorChoice
from .chat_app import ChatOptions
from .chat_screen import ChatScreen
from .chat_session import ChatSession
from .run_launch import RunLauncher
from .transcript_printer import TranscriptPrinter


async def talk_on(screen: ChatScreen, options: ChatOptions) -> str:
    """Talk on this screen; what to say when it is left ("" for nothing).

    Raises UsageError if the run that is to be opened does not exist.
    """
    environment = dict(os.environ)
    places = find_user_paths(environment)

    def find(wanted: str) -> LiveRun:
        return LiveRun(paths_of_run(places, find_run(places, wanted)))

    opener = await asyncio.to_thread(options.find_opener)
    session = ChatSession(
        screen,
        launcher=RunLauncher(options.run_options, environment),
        environment=environment,
        find_run=find,
        printer=TranscriptPrinter(
            color=cast("ColorChoice", options.color),
            environment=environment,
            links=FileLinks(str(Path.cwd()), cast("FileOpener", opener)),
        ),
        cwd=Path.cwd(),
    )
    ending = await session.talk(
        find(options.run) if options.run else None, words=options.words, planning=options.planning
    )
    if not session.run_id:
        return ""
    short = short_id(session.run_id)
    lines = [f"not sent: {words[:200]}" for words in session.unsent]
    if ending == "ended":
        lines.append(f"run {short} is ended; `swarm chat {short}` continues it")
    else:
        lines.append(f"run {short} stays; `swarm chat {short}` comes back, `swarm ps` lists it")
    return "\n".join(lines)
