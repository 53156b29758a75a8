"""Yeses over a whole run, its resumes included: each holds for whom and for what it was given, as
often as it was given, and a journal says the same of them as memory."""

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from swarm.mailbox.protocol.approvals import (
    ApprovalGrant,
    ApprovalRequest,
    CommandAction,
    ExtraPermissions,
    PermissionsAction,
)
from swarm.mailbox.protocol.records import GrantGiven, Record
from swarm.roles.rules.program_effects import find_more
from swarm.supervisor.approvals.approval_grants import (
    ApprovalGrants,
    ApprovalsFold,
    applies_to,
    exact_keys,
    make_exact_grant,
    make_grant,
)


def fold_approvals(records):
    fold = ApprovalsFold()
    for record in records:
        fold.take(record)
    return fold.past()


AGENTS = st.sampled_from(["/root", "/root/a", "/root/a/b", "/root/ab", "/root/c"])
SCRIPTS = st.sampled_from(["make x", "make y", "rm x", "git push"])
FOLDERS = st.sampled_from(["/w", "/w/in", "/v"])
CAUSES = st.sampled_from(["escalation", "untrusted", "destructive"])
SCOPES = st.sampled_from(["once", "session", "subtree", "always"])


@st.composite
def commands(draw) -> ApprovalRequest:
    script, cause = draw(SCRIPTS), draw(CAUSES)
    action = CommandAction(argv=("/bin/sh", "-c", script), cwd="/w", script=script)
    destroys = cause == "destructive"
    return ApprovalRequest(
        action=action,
        cause=cause,
        keys=() if destroys else (script,),
        proposed_prefix=() if destroys else tuple(script.split()[:1]),
    )


@st.composite
def permission_requests(draw) -> ApprovalRequest:
    wanted = ExtraPermissions(
        network=draw(st.booleans()),
        read=tuple(draw(st.sets(FOLDERS, max_size=1))),
        write=tuple(draw(st.sets(FOLDERS, max_size=1))),
    )
    return ApprovalRequest(action=PermissionsAction(permissions=wanted), cause="permissions")


REQUESTS = st.one_of(commands(), permission_requests())


class Yeses(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.grants = ApprovalGrants()
        self.given: list[ApprovalGrant] = []  # that hold
        self.journal: list[Record] = []

    def note(self, grant: ApprovalGrant, *, used_up: bool = False) -> None:
        body = GrantGiven(grant=grant, used_up=used_up)
        self.journal.append(Record(seq=len(self.journal) + 1, ts=0.0, body=body))

    def give(self, grant: ApprovalGrant) -> None:
        self.grants.add(grant)
        self.given.append(grant)
        self.note(grant)

    @rule(agent=AGENTS, request=REQUESTS, scope=SCOPES)
    def a_person_says_yes(self, agent, request, scope) -> None:
        grant = make_grant(f"g{len(self.journal)}", agent, request, scope)
        if scope == "once":
            assert grant is None
        if isinstance(grant, ApprovalGrant):
            assert request.cause != "destructive", "what is destroyed next is something else"
            assert grant.path == ("/root" if scope == "always" else agent)
            assert grant.below == (scope in {"subtree", "always"})
            self.give(grant)

    @rule(agent=AGENTS, request=REQUESTS)
    def a_person_overrules_the_reviewer(self, agent, request) -> None:
        self.give(make_exact_grant(f"g{len(self.journal)}", agent, request))

    @rule(agent=AGENTS, request=REQUESTS)
    def an_agent_asks(self, agent, request) -> None:
        found = self.grants.find(agent, request)
        assert (found is not None) == self.is_allowed(agent, request)
        if found is None:
            return
        assert applies_to(found, agent)
        taken = self.grants.use(found)
        assert (taken is not None) == (found.uses is not None)
        if taken is not None:
            assert exact_keys(request) == set(found.keys)
            self.given.remove(found)
            self.note(found, used_up=True)

    @precondition(lambda self: self.journal)
    @rule()
    def the_run_is_resumed(self) -> None:
        self.grants = ApprovalGrants(fold_approvals(self.journal).grants)

    def is_allowed(self, agent: str, request: ApprovalRequest) -> bool:
        """What the yeses said, one by one, would mean to a person."""
        mine = [
            one
            for one in self.given
            if agent == one.path or (one.below and agent.startswith(one.path + "/"))
        ]
        if any(one.uses and set(one.keys) == exact_keys(request) for one in mine):
            return True
        lasting = [one for one in mine if one.uses is None]
        if isinstance(request.action, PermissionsAction):
            return self.is_within(request.action.permissions, lasting)
        if request.cause == "destructive":
            return False
        words = tuple(request.action.script.split())
        by_key = any(request.action.script in one.keys for one in lasting)
        return by_key or any(
            one.prefix == words[: len(one.prefix)] and not find_more(one.prefix, words)
            for one in lasting
            if one.prefix
        )

    def is_within(self, wanted: ExtraPermissions, lasting: list[ApprovalGrant]) -> bool:
        held = [one.permissions for one in lasting if one.permissions is not None]
        writes = {path for one in held for path in one.write}
        reads = writes | {path for one in held for path in one.read}

        def lies(path: str, folders: set[str]) -> bool:
            return any(path == one or path.startswith(one + "/") for one in folders)

        some = wanted.network or wanted.read or wanted.write
        network = not wanted.network or any(one.network for one in held)
        return (
            bool(some)
            and network
            and all(lies(path, writes) for path in wanted.write)
            and all(lies(path, reads) for path in wanted.read)
        )

    @invariant()
    def the_journal_says_what_memory_holds(self) -> None:
        assert list(fold_approvals(self.journal).grants) == self.given
        assert len(self.grants) == len(self.given)

    @invariant()
    def nobody_has_rights_that_nobody_gave_him(self) -> None:
        for agent in ("/root", "/root/a", "/root/ab"):
            held = self.grants.permissions_of(agent)
            mine = [one for one in self.given if applies_to(one, agent)]
            assert set(held.write) == {
                path for one in mine if one.permissions for path in one.permissions.write
            }


Yeses.TestCase.settings = settings(max_examples=100, stateful_step_count=30, deadline=None)
TestYeses = Yeses.TestCase
