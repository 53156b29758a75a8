"""Who is asked: the table."""

import pytest

from swarm.mailbox.protocol.approvals import (
    ApprovalRequest,
    CommandAction,
    ExtraPermissions,
    PermissionsAction,
    QuestionsAction,
)
from swarm.mailbox.protocol.values.limits import Granular, Limits
from swarm.supervisor.approvals.approval_route import NoReviewer, choose_route

COMMAND = ApprovalRequest(action=CommandAction(argv=("x",), cwd="/"), cause="escalation")
RULE = ApprovalRequest(action=CommandAction(argv=("x",), cwd="/"), cause="rule")
QUESTION = ApprovalRequest(action=QuestionsAction(questions=()), cause="question")
RIGHTS = ApprovalRequest(
    action=PermissionsAction(permissions=ExtraPermissions(network=True)), cause="permissions"
)


@pytest.mark.parametrize(
    ("request_", "limits", "way"),
    [
        (COMMAND, {"reviewer": "person"}, "person"),
        (COMMAND, {"reviewer": "guardian"}, "guardian"),
        (COMMAND, {"reviewer": "nobody"}, None),
        (COMMAND, {"reviewer": "person", "approval": "never"}, None),
        (COMMAND, {"reviewer": "guardian", "approval": "never"}, None),
        (COMMAND, {"reviewer": "person", "approval": "untrusted"}, "person"),
        (COMMAND, {"reviewer": "guardian", "approval": "untrusted"}, None),
        (COMMAND, {"reviewer": "guardian", "approval": "on-failure"}, None),
        (QUESTION, {"reviewer": "person"}, "person"),
        (QUESTION, {"reviewer": "guardian"}, None),
        (QUESTION, {"reviewer": "person", "approval": "never"}, None),
        (RIGHTS, {"reviewer": "guardian"}, "guardian"),
        (RIGHTS, {"reviewer": "person", "granular": Granular()}, None),
        (RIGHTS, {"reviewer": "person", "granular": Granular(request_permissions=True)}, "person"),
        (RULE, {"reviewer": "person", "granular": Granular(rules=False)}, None),
        (RULE, {"reviewer": "person", "granular": Granular(sandbox_approval=False)}, "person"),
        (COMMAND, {"reviewer": "person", "granular": Granular(sandbox_approval=False)}, None),
        (COMMAND, {"reviewer": "guardian", "granular": Granular()}, "guardian"),
        (QUESTION, {"reviewer": "person", "granular": Granular()}, "person"),
    ],
)
def test_a_question_goes_to_who_may_answer_it_or_is_refused(request_, limits, way):
    found = choose_route(request_, Limits(**limits))
    assert (found == way) if way is not None else isinstance(found, NoReviewer)
