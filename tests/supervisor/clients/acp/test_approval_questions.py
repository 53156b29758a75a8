"""What an editor answers reaches the run, also one that is too busy to take it at once."""

import asyncio

from acp.schema import AllowedOutcome, RequestPermissionResponse

from swarm.mailbox.base.errors import SwarmError
from swarm.mailbox.protocol.approvals import ApprovalRequest, CommandAction
from swarm.mailbox.protocol.control import Refused, ResolveApproval
from swarm.mailbox.protocol.records import ApprovalRequested, Record
from swarm.supervisor.clients.acp import approval_questions
from swarm.supervisor.clients.acp.approval_questions import ApprovalQuestions
from swarm.supervisor.clients.client import ControlRequestRefused, LiveRun
from swarm.supervisor.runs.paths import RunPaths

ASKED = Record(
    seq=1,
    ts=1.0,
    agent="/root",
    body=ApprovalRequested(
        approval_id="a1",
        reviewer="person",
        request=ApprovalRequest(action=CommandAction(argv=("ls",), cwd="/"), cause="untrusted"),
    ),
)


class BusyRun(LiveRun):
    """Takes a request only after it failed in each of these ways."""

    def __init__(self, folder, *faults: SwarmError) -> None:
        super().__init__(RunPaths(folder=folder, sockets=folder))
        self.faults, self.asked = list(faults), []

    async def request(self, request, *, timeout_s=10.0):
        self.asked.append(request)
        if self.faults:
            raise self.faults.pop(0)


class Yes:
    """An editor that allows everything."""

    shows_forms = False

    async def ask(self, session_id, call, options):
        return RequestPermissionResponse(
            outcome=AllowedOutcome(outcome="selected", option_id="once")
        )

    async def fill_in(self, session_id, message, schema):
        raise AssertionError("no form was asked for")


def answers(run: BusyRun) -> list:
    """The requests that reach the run, once nothing is being asked any more."""

    async def play() -> None:
        questions = ApprovalQuestions(run, Yes())
        questions.watch(ASKED)
        await asyncio.wait([*questions._asking.values()])

    asyncio.run(play())
    return run.asked


def test_an_answer_that_a_busy_run_did_not_take_is_given_again(tmp_path, monkeypatch):
    monkeypatch.setattr(approval_questions, "_TRY_AGAIN_S", 0.0)
    run = BusyRun(tmp_path, SwarmError("no answer in 10 s"), SwarmError("no answer in 10 s"))
    assert answers(run) == [ResolveApproval(approval_id="a1", approve=True)] * 3


def test_an_answer_that_comes_too_late_is_given_once(tmp_path):
    refused = ControlRequestRefused(Refused(message="somebody else answered"))
    assert len(answers(BusyRun(tmp_path, refused))) == 1
