"""Rules, tickets and answers: what the supervisor says to and of the proxy."""

import pytest

from swarm.mailbox.contents.credentials import open_ticket, ticket_key
from swarm.mailbox.protocol.approvals import NetworkAction
from swarm.mailbox.protocol.proxy import NetworkAnswered, NetworkAsked, NetworkTarget
from swarm.mailbox.protocol.requests import Decided
from swarm.mailbox.protocol.rules import NetworkRule, RuleSet
from swarm.mailbox.protocol.values.limits import Limits, NetworkPolicy
from swarm.supervisor.parts.network.network_policy import (
    approval_request,
    network_answer,
    ticket_for,
    with_rules,
)

ASKED = NetworkAsked(
    question=7,
    agent="/root/a",
    target=NetworkTarget(host="a.org", port=443, protocol="https"),
    trigger="curl https://a.org",
)
POLICY = NetworkPolicy(allow=("x.org",), deny=("y.org",))


def rule(host, decision):
    return NetworkRule(host=host, protocol="https", decision=decision)


def test_rules_are_merged_into_the_lists():
    rules = RuleSet(
        network=(rule("a.org", "allow"), rule("b.org", "deny"), rule("c.org", "prompt"))
    )
    assert with_rules(POLICY, rules) == NetworkPolicy(
        allow=("x.org", "a.org"), deny=("y.org", "b.org"), ask=("c.org",)
    )


def test_while_a_rule_file_is_broken_nothing_is_allowed_unasked():
    assert with_rules(POLICY, RuleSet(broken="file, line 3")) == NetworkPolicy(deny=("y.org",))


def test_an_agent_without_the_proxy_has_no_ticket():
    assert ticket_for("/root", Limits(), b"key") == b""


@pytest.mark.parametrize(("approval", "asks"), [("never", False), ("on-request", True)])
def test_a_ticket_says_who_what_and_whether_it_may_ask(approval, asks):
    sealed = ticket_for("/root/a", Limits(network=POLICY, approval=approval), b"key")
    ticket = open_ticket(sealed, ticket_key(b"key"))
    assert ticket is not None
    assert (ticket.agent, ticket.policy, ticket.asks) == ("/root/a", POLICY, asks)


def test_the_question_names_host_port_protocol_and_command():
    request = approval_request(ASKED)
    assert request.action == NetworkAction(
        host="a.org", port=443, protocol="https", trigger="curl https://a.org"
    )
    assert request.cause == "network"
    assert request.reason == "a.org is not in the allowed_domains"
    assert request.keys == ('{"host":"a.org","network":"https","port":443}',)


@pytest.mark.parametrize(
    ("decided", "answer"),
    [
        (Decided(outcome="approved"), {"allow": True}),
        (Decided(outcome="approved", scope="session"), {"allow": True, "remember": True}),
        (Decided(outcome="approved", scope="always"), {"allow": True, "remember": True}),
        (
            Decided(outcome="approved", scope="subtree"),
            {"allow": True, "remember": True, "below": "/root/a"},
        ),
        (Decided(outcome="denied"), {"allow": False}),
        (Decided(outcome="denied", scope="session"), {"allow": False, "remember": True}),
        (Decided(outcome="failed", scope="session"), {"allow": False}),
        (Decided(outcome="timed_out"), {"allow": False}),
        (Decided(outcome="aborted"), {"allow": False}),
        (Decided(outcome="unavailable"), {"allow": False}),
    ],
)
def test_only_an_approval_is_a_yes(decided, answer):
    assert network_answer(ASKED, decided) == NetworkAnswered(question=7, **answer)
