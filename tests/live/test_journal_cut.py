"""A supervisor that is killed between two writes of its journal, and what a resume makes of it."""

import sys

import pytest
import trio

from support.scripted_team_run import ScriptedRun, call, calls, says, spawns
from swarm.mailbox.protocol.records import AgentEnded, ItemRecorded, MailPosted, RunCompleted

pytestmark = pytest.mark.live

# The real command, but the journal's process dies right after the write of one record.
CUT = """
import os, signal, sys
from swarm.supervisor.journal.journal_files import JournalFiles
from swarm.supervisor.clients.cli.entry import main

append, marks = JournalFiles.append, [mark.encode() for mark in sys.argv.pop(1).split("|")]

def cut(files, name, lines):
    lines = list(lines)
    for number, line in enumerate(lines, 1):
        if all(mark in line for mark in marks):
            append(files, name, lines[:number])
            os.kill(os.getpid(), signal.SIGKILL)
    return append(files, name, lines)

JournalFiles.append = cut
main()
"""


async def test_an_answer_whose_mail_was_cut_off_is_told_to_the_parent_once(tmp_path):
    scripted = ScriptedRun(tmp_path)
    turns = [
        calls("/root", *spawns("a")),
        calls("/root", call("exec_command", cmd="sleep 60")),
        says("/root", "told"),
        says("/root", "told again"),
        says("/root/a", "the answer"),
    ]
    with trio.fail_after(60):
        cut = ["-P", "-c", CUT, '"type":"agent_ended"|"agent":"/root/a"', *scripted.argv(turns)[1:]]
        first = await trio.run_process(
            [sys.executable, *cut], env=scripted.environment, capture_stderr=True, check=False,
            capture_stdout=True,
        )  # fmt: skip
        assert first.returncode == -9, first.stderr
        assert scripted.of(AgentEnded, "/root/a")
        assert not [one for one in scripted.of(MailPosted) if one.mail.author == "/root/a"]
        done = await scripted.ended(scripted.resume_argv())
    assert done.returncode == 0, done.stderr.decode()[-3000:]
    mails = [one.mail for one in scripted.of(MailPosted, "/root") if one.mail.author == "/root/a"]
    assert [message.content for message in mails] == ["the answer"]
    read = [one for one in scripted.of(ItemRecorded, "/root") if one.source == "mail"]
    assert [one.item_id for one in read] == [mails[0].mail_id]
    assert scripted.of(RunCompleted)[-1].status == "completed"
