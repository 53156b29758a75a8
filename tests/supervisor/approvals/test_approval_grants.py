"""What a lasting yes covers, and what it never does."""

import pytest

from swarm.mailbox.protocol.approvals import (
    ApprovalGrant,
    ApprovalRequest,
    CommandAction,
    ExtraPermissions,
    NetworkAction,
    PermissionsAction,
    PersonQuestion,
    QuestionsAction,
)
from swarm.mailbox.protocol.records import ApprovalRequested, ApprovalResolved, GrantGiven, Record
from swarm.supervisor.approvals.approval_grants import (
    ApprovalGrants,
    ApprovalsFold,
    ApprovalsPast,
    make_exact_grant,
    make_grant,
    plain_words,
)


def fold_approvals(records):
    fold = ApprovalsFold()
    for record in records:
        fold.take(record)
    return fold.past()


def asks(script: str = "touch /x", **more) -> ApprovalRequest:
    action = CommandAction(argv=("/bin/bash", "-lc", script), cwd="/w", script=script)
    return ApprovalRequest(**{"action": action, "cause": "escalation", "keys": (script,), **more})


def commits(folder: str, cause: str = "commit") -> ApprovalRequest:
    action = CommandAction(argv=("git", "commit"), cwd="/w", commits_in=folder)
    return ApprovalRequest(action=action, cause=cause)


def wants(**what) -> ApprovalRequest:
    action = PermissionsAction(permissions=ExtraPermissions(**what))
    return ApprovalRequest(action=action, cause="permissions")


ME, CHILD, COUSIN = "/root/a", "/root/a/b", "/root/ab"


@pytest.mark.parametrize(
    ("grant", "agent", "request_", "covered"),
    [
        ({"keys": ("touch /x",)}, ME, asks(), True),
        ({"keys": ("touch /x",)}, CHILD, asks(), False),
        ({"keys": ("touch /x",), "below": True}, CHILD, asks(), True),
        ({"keys": ("touch /x",), "below": True}, COUSIN, asks(), False),
        ({"keys": ("touch /x",)}, ME, asks("touch /y"), False),
        ({"keys": ("touch /x",)}, ME, asks(keys=("touch /x", "more")), False),
        ({"keys": ("touch /x",)}, ME, asks(keys=()), False),
        ({"prefix": ("touch",)}, ME, asks("touch /y"), True),
        ({"prefix": ("touch", "/y")}, ME, asks("touch /yy"), False),
        ({"prefix": ("touch",)}, ME, asks("touch /y; rm -rf /"), False),
        ({"prefix": ("touch",)}, ME, asks("touch $(rm x)"), False),
        ({"prefix": ("touch",)}, ME, asks("touch /y\nrm x"), False),
        ({"prefix": ("touch",)}, ME, asks("touch /y > /etc/x"), False),
        ({"prefix": ("FOO=1",)}, ME, asks("FOO=1 rm x"), False),
        ({"prefix": ("rm",)}, ME, asks("rm -r x", cause="destructive"), False),
        ({"prefix": ("rm",)}, ME, asks("rm -r x", cause="rule"), False),
        ({"commits_in": "/w"}, ME, commits("/w"), True),
        ({"commits_in": "/w"}, ME, commits("/v"), False),
        ({"commits_in": "/w"}, ME, commits("/w", cause="destructive"), False),
        ({"permissions": ExtraPermissions(write=("/d",))}, ME, wants(write=("/d/e",)), True),
        ({"permissions": ExtraPermissions(write=("/d",))}, ME, wants(write=("/dd",)), False),
        ({"permissions": ExtraPermissions(write=("/d",))}, ME, wants(write=("/d/../e",)), False),
        ({"permissions": ExtraPermissions(write=("/d",))}, ME, wants(read=("/d",)), True),
        ({"permissions": ExtraPermissions(read=("/d",))}, ME, wants(write=("/d",)), False),
        ({"permissions": ExtraPermissions(read=("/d",))}, ME, wants(network=True), False),
        ({"permissions": ExtraPermissions(read=("/d",))}, ME, wants(), False),
    ],
)  # fmt: skip
def test_a_grant_covers_what_it_names_for_whom_it_names(grant, agent, request_, covered):
    held = ApprovalGrants([ApprovalGrant(grant_id="g1", path=ME, **grant)])
    assert (held.find(agent, request_) is not None) == covered


def test_several_grants_together_cover_a_patch_of_several_files():
    held = ApprovalGrants(
        [
            ApprovalGrant(grant_id="1", path=ME, keys=("a",)),
            ApprovalGrant(grant_id="2", path=ME, keys=("b",)),
        ]
    )
    assert held.find(ME, asks(keys=("a", "b"))) is not None
    assert held.find(ME, asks(keys=("a", "c"))) is None


def test_a_grant_for_one_use_fits_exactly_and_once():
    held = ApprovalGrants()
    for request in (asks(), asks(keys=())):
        grant = make_exact_grant("g1", ME, request)
        held.add(grant)
        assert held.find(ME, asks("touch /y")) is None
        assert held.find(CHILD, request) is None
        assert held.find(ME, request) == grant
        assert held.use(grant) == GrantGiven(grant=grant, used_up=True)
        assert held.find(ME, request) is None


READ_R = ExtraPermissions(read=("/r",))


def test_permissions_add_up_for_the_next_life():
    held = ApprovalGrants(
        [
            ApprovalGrant(grant_id="1", path=ME, permissions=ExtraPermissions(write=("/d",))),
            ApprovalGrant(grant_id="2", path="/root", below=True, permissions=READ_R),
        ]
    )
    both = ExtraPermissions(write=("/d",), read=("/r",))
    assert held.permissions_of(ME) == both
    assert held.permissions_of("/root/z") == READ_R
    assert held.find(ME, wants(write=("/d/x",), read=("/r/y",))) is not None


NETWORK = ApprovalRequest(
    action=NetworkAction(host="h", port=1, protocol="https"), cause="network", keys=("h",)
)
QUESTION = ApprovalRequest(
    action=QuestionsAction(
        questions=(PersonQuestion(id="q", header="", question="?", options=()),)
    ),
    cause="question",
)


@pytest.mark.parametrize(
    ("request_", "scope", "grant"),
    [
        (asks(), "once", None),
        (asks(), "session", ApprovalGrant(grant_id="g", path=ME, keys=("touch /x",))),
        (asks(), "subtree", ApprovalGrant(grant_id="g", path=ME, below=True, keys=("touch /x",))),
        (asks(keys=()), "session", "it can only be approved once"),
        (asks(proposed_prefix=("touch",)), "always",
         ApprovalGrant(grant_id="g", path="/root", below=True, prefix=("touch",))),
        (commits("/w"), "session", ApprovalGrant(grant_id="g", path=ME, commits_in="/w")),
        (wants(network=True), "session",
         ApprovalGrant(grant_id="g", path=ME, permissions=ExtraPermissions(network=True))),
        (NETWORK, "session", ApprovalGrant(grant_id="g", path="/root", below=True, keys=("h",))),
        (NETWORK, "always", ApprovalGrant(grant_id="g", path="/root", below=True, keys=("h",))),
    ],
)  # fmt: skip
def test_an_answer_makes_the_grant_that_was_meant(request_, scope, grant):
    assert make_grant("g", ME, request_, scope) == grant


@pytest.mark.parametrize(("request_", "scope"), [(asks(), "always"), (QUESTION, "session")])
def test_what_cannot_be_granted_says_so(request_, scope):
    assert isinstance(make_grant("g", ME, request_, scope), str)


def test_a_command_without_a_shell_is_its_own_words():
    assert plain_words(("git", "status")) == ("git", "status")
    assert plain_words(("bash", "-x", "-c", "touch")) == ()
    assert plain_words(("/w/bash", "-c", "touch")) == ()
    assert plain_words(("zsh", "-c", "touch  a")) == ("touch", "a")


def test_a_resumed_run_has_its_grants_its_ids_and_closes_what_was_open():
    kept, gone = (
        ApprovalGrant(grant_id="g1", path=ME),
        ApprovalGrant(grant_id="g2", path=ME, uses=1),
    )
    bodies = [
        ApprovalRequested(approval_id="a1", request=asks(), reviewer="person"),
        ApprovalResolved(approval_id="a1", outcome="approved", by="person"),
        GrantGiven(grant=kept),
        GrantGiven(grant=gone),
        GrantGiven(grant=gone, used_up=True),
        ApprovalRequested(approval_id="a12", request=asks(), reviewer="person"),
    ]
    records = [Record(seq=n, ts=0, body=body, agent=ME) for n, body in enumerate(bodies)]
    assert fold_approvals(records) == ApprovalsPast(
        grants=(kept,), unanswered=(("a12", ME),), last_number=12
    )
