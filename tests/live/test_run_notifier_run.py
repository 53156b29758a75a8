"""`--notify`: a command of the person's is told what waits, and fails without harm."""

import json
import sys

import msgspec
import pytest
import trio

from swarm.mailbox.protocol.approvals import ApprovalRequest, CommandAction
from swarm.mailbox.protocol.control import Recorded
from swarm.mailbox.protocol.records import ApprovalRequested, Record, RunCompleted
from swarm.supervisor.clients.cli.base.run_notifier import open_notifier
from swarm.supervisor.request.run_request import RunRequest

pytestmark = pytest.mark.live
NOTE = "import os, sys; print(sys.argv[1], os.environ['SWARM_EVENT'], sep='\\n', "
ASKED = ApprovalRequested(
    approval_id="a1",
    request=ApprovalRequest(action=CommandAction(argv=("rm", "x"), cwd="/"), cause="rule"),
    reviewer="person",
)


@pytest.fixture
def note(tmp_path):
    """A command that writes down what it was told, and the file."""
    script, told = tmp_path / "note.py", tmp_path / "told"
    script.write_text(f"{NOTE}file=open({str(told)!r}, 'a'))")
    return f"{sys.executable} {script}", told


def record(body) -> Recorded:
    return Recorded(record=Record(seq=1, ts=0.0, body=body, agent="/root/a"))


async def test_a_question_for_a_person_is_told_and_one_for_the_reviewer_is_not(note):
    command, told = note
    request = RunRequest(cwd="/srv/project", run_id="r1", environment={"PATH": "/bin"})
    notifier = open_notifier(command, request)
    assert notifier is not None
    notifier.on_feed(record(msgspec.structs.replace(ASKED, reviewer="guardian")))
    notifier.on_feed(record(ASKED))
    with trio.move_on_after(10) as scope:

        async def draw(current) -> None:
            while not told.exists() or not told.read_text().endswith("requested\n"):  # noqa: ASYNC110 (a file has no event)
                await trio.sleep(0.01)
            scope.cancel()

        await notifier.run_beside(draw, lambda: None)
    first, event = told.read_text().splitlines()
    about = json.loads(first)
    assert event == about["type"] == "approval.requested"
    assert (about["run"], about["id"], about["agent"]) == ("r1", "a1", "/root/a")
    assert about["action"] == "rm x"


def test_a_notice_that_fails_is_one_warning(capsys):
    request = RunRequest(cwd="/srv/project", run_id="r1", environment={"PATH": "/bin"})
    for command in ("/no/such/program", "false"):
        notifier = open_notifier(command, request)
        assert notifier is not None
        notifier.finish(RunCompleted(status="completed"))
        notifier.finish(RunCompleted(status="completed"))
        assert capsys.readouterr().err.count("warning: --notify") == 1


async def test_a_command_that_agents_could_have_exchanged_is_not_started_and_says_why(
    tmp_path, capsys
):
    """A bare name found first in the project's environment, and a script of the project."""
    planted = tmp_path / "project/.venv/bin/tell"
    planted.parent.mkdir(parents=True)
    planted.write_text(f"#!/bin/sh\ntouch {tmp_path}/told\n")
    planted.chmod(0o755)
    path = f"{planted.parent}:/usr/bin:/bin"
    request = RunRequest(cwd=str(tmp_path / "project"), run_id="r1", environment={"PATH": path})
    for command in ("tell", f"sh {planted}", f"{sys.executable} -m tell", f"{planted} x"):
        notifier = open_notifier(command, request)
        assert notifier is not None
        await trio.to_thread.run_sync(notifier.finish, RunCompleted(status="completed"))
        said = capsys.readouterr().err
        if " -m " not in command:
            assert "swarm: warning: --notify: it was not started: " in said
            assert f"lies in {tmp_path}/project, where agents may write" in said
    assert not (tmp_path / "told").exists()
