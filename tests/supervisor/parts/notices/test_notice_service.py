"""A question is told only if it still waits for a person after a while, in virtual time."""

import pytest
import trio

from support.team_in_memory import open_team
from swarm.mailbox.parts.notices.notice_messages import NoticeBegan, NoticeEnded, NotifySettings
from swarm.mailbox.parts.part_messages import PartSettings
from swarm.mailbox.protocol.approvals import ApprovalRequest, CommandAction
from swarm.mailbox.protocol.records import ApprovalRequested, ApprovalResolved
from swarm.supervisor.parts.notices.service.notice_service import QUESTION_AFTER_S

ASKED = ApprovalRequest(action=CommandAction(argv=("make",), cwd="/"), cause="policy")
SETTINGS = PartSettings(notices=NotifySettings(terminal=True))


async def told(tmp_path, *, reviewer: str, answered_after_s: float) -> list[NoticeBegan]:
    async with open_team(tmp_path, {}, parts=SETTINGS) as team:
        asked = ApprovalRequested(approval_id="a1", request=ASKED, reviewer=reviewer)
        team.running.note(asked, agent="/root")
        await trio.sleep(answered_after_s)
        resolved = ApprovalResolved(approval_id="a1", outcome="approved", by="person")
        team.running.note(resolved, agent="/root")
        await trio.sleep(QUESTION_AFTER_S + 20)
        ended = team.bodies(NoticeEnded, "")
        began = team.bodies(NoticeBegan, "")
        assert len(ended) == len(began)
        return began


@pytest.mark.parametrize("reviewer", ["guardian", "person"])
async def test_what_was_answered_before_is_never_told(tmp_path, reviewer, autojump_clock):
    assert await told(tmp_path, reviewer=reviewer, answered_after_s=QUESTION_AFTER_S - 1) == []


async def test_what_the_guardian_answers_is_never_told_however_long_it_takes(
    tmp_path, autojump_clock
):
    assert await told(tmp_path, reviewer="guardian", answered_after_s=60) == []


async def test_a_question_that_waits_is_told_once_and_says_nothing_of_it(tmp_path, autojump_clock):
    (began,) = await told(tmp_path, reviewer="person", answered_after_s=60)
    assert (began.kind, began.urgency, began.sinks) == ("question", "high", ("terminal",))
    assert "make" not in began.text
