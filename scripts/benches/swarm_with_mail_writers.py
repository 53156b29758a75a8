"""swarm with agents that write mails by the clock instead of by a model; for agents_mail.py.

Everything else is the real thing: processes, sockets, the supervisor, its journal, the sessions'
inboxes. When its task arrives, an agent waits for the file `go`, then asks the supervisor to carry
mails at its rate, as `send_message` does, and notes which mails arrive in its own inbox when.
"""

import json
import os
import random
import sys
import time
from functools import partial
from pathlib import Path
from typing import NoReturn

import trio

# A folder; the file `plan` in it says how much and how long.
MAIL_FOLDER_VARIABLE = "SWARM_BENCH_MAIL"
MESSAGE_PREFIX = "letter"


def begin(channel_fd: int, lifeline_fd: int) -> NoReturn:
    """The real fork-server, whose children note their mail."""
    from swarm.mailbox.protocol.ops import Mail
    from swarm.worker.agent.agent_session import AgentSession
    from swarm.worker.base.inbox import Inbox
    from swarm.worker.process import fork_server

    deliver, take = AgentSession.deliver_mail, Inbox.add_mail

    def take_and_note(inbox: Inbox, mail: Mail) -> bool:
        arrived = time.monotonic_ns()
        is_new = take(inbox, mail)  # at a start a mail may be handed over twice: one is dropped
        if is_new and mail.content.startswith(MESSAGE_PREFIX):
            sent = int(mail.content.rpartition(" ")[2])
            _arrived.append((mail.content, (arrived - sent) / 1e6))
        return is_new

    def deliver_and_begin(session: AgentSession, mail: Mail) -> None:
        if "bench:leaf" in mail.content and not _begun:
            _begun.append(mail.mail_id)
            name = mail.content.partition("<")[2].partition(">")[0]
            trio.lowlevel.spawn_system_task(_write_messages, session, int(name[1:]))
        deliver(session, mail)

    Inbox.add_mail = take_and_note  # type: ignore[method-assign,assignment]
    AgentSession.deliver_mail = deliver_and_begin  # type: ignore[method-assign,assignment]
    fork_server.run_fork_server(channel_fd, lifeline_fd)


_arrived: list[tuple[str, float]] = []
_begun: list[str] = []


async def _write_messages(session: object, me: int) -> None:
    folder = Path(os.environ[MAIL_FOLDER_VARIABLE])
    plan = json.loads((folder / "plan").read_text())
    while not (folder / "go").exists():  # noqa: ASYNC110 — a file has no event
        await trio.sleep(0.02)
    gap, refused = plan["agents"] / plan["rate"], list[str]()
    dice = random.Random(me)
    begin = trio.current_time() + dice.random() * gap
    sent = round(plan["seconds"] / gap)
    async with trio.open_nursery() as nursery:
        for number in range(sent):
            await trio.sleep_until(begin + number * gap)
            other = (me + 1 + dice.randrange(plan["agents"] - 1)) % plan["agents"]
            nursery.start_soon(partial(_write_one, session, me, number, other, refused))
    await trio.sleep(2.0)  # what is on its way
    found = {"me": me, "sent": sent, "refused": refused, "arrived": _arrived}
    fresh = folder / f"{me}.new"
    fresh.write_text(json.dumps(found))
    fresh.rename(folder / f"{me}.json")


async def _write_one(session: object, me: int, number: int, other: int, refused: list[str]) -> None:
    from swarm.mailbox.protocol.requests import SendMail, Sent

    words = f"{MESSAGE_PREFIX} {me} {number} {time.monotonic_ns()}"
    request = SendMail(target=f"/root/p{other}", message=words)
    reply = await session.state.reporter.request(request)  # type: ignore[attr-defined]
    if not isinstance(reply, Sent):
        refused.append(repr(reply))


def main() -> None:
    """As the command `swarm`."""
    sys.path.insert(0, str(Path(__file__).parent))
    from swarm.supervisor.clients.cli.entry import main as swarm
    from swarm.supervisor.processes import early_start

    programs = early_start.ChildPrograms(forkserver="swarm_with_mail_writers:begin")
    early_start.ChildPrograms = lambda: programs  # type: ignore[assignment, misc]
    swarm()


if __name__ == "__main__":
    main()
