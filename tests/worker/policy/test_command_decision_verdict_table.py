"""The table of real commands: what becomes of each under every approval policy.

The commands and their verdicts are data (`data/verdicts.toml`), so that a change of policy is a
change of one visible line.
"""

import tomllib
from pathlib import Path

import msgspec
import pytest

from support.paths import ROOT
from swarm.mailbox.protocol.approvals import LossPreview
from swarm.mailbox.protocol.values.limits import DangerFullAccess, Limits, WorkspaceWrite
from swarm.roles.rules.evaluate import evaluate
from swarm.roles.rules.evaluator_client import CollectedRules
from swarm.worker.policy.command_decision import Ask, Refuse, Run, decide_command
from swarm.worker.policy.command_facts import EscalationRequest, gather_facts, no_rules
from swarm.worker.policy.commit_commands import find_commit_folder
from swarm.worker.policy.destructive_commands import find_destructive_commands
from swarm.worker.policy.rule_matching import rule_matcher
from swarm.worker.policy.shell_parser import plain_commands

EXAMPLE = ROOT / "examples" / "default.rules"
FILE = Path(__file__).parent / "data" / "verdicts.toml"
GROUPS = tomllib.loads(FILE.read_text(encoding="utf-8"))["group"]
PLACE, FULL = WorkspaceWrite(), DangerFullAccess()
LEAVE = EscalationRequest(permissions="require_escalated", justification="It needs more.")
SITUATIONS = [
    ("untrusted", PLACE, None),
    ("on-failure", PLACE, None),
    ("on-request", PLACE, None),
    ("never", PLACE, None),
    ("on-request", FULL, None),
    ("never", FULL, None),
    ("on-request", PLACE, LEAVE),
]
LETTERS = {
    "untrusted": "Au",
    "dangerous": "Ad",
    "escalation": "Ae",
    "rule": "Ar",
    "destructive": "Ax",
    "commit": "Ac",
}


def argv_of(command) -> list[str]:
    return command if isinstance(command, list) else ["bash", "-c", command]


def letter(verdict) -> str:
    match verdict:
        case Run():
            return "R" if verdict.sandboxed else "U"
        case Ask():
            return LETTERS[verdict.cause]
        case Refuse():
            return "F"


def row_of(command, match_rules, group) -> str:
    found = []
    for approval, sandbox, escalation in SITUATIONS:
        limits = Limits(approval=approval, sandbox=sandbox)
        facts = gather_facts(argv_of(command), limits, escalation, match_rules=match_rules)
        found.append(letter(decide_command(with_effects(facts, group))))
    return " ".join(found)


def with_effects(facts, group):
    """As looking at the folder would have it: something is there to be lost, in a repository."""
    if group.get("destroys") and (found := find_destructive_commands(facts.argv)):
        kept = all(one.losses_are_files for one in found)
        loss = LossPreview(summary="It removes 2 files.", count=2, kept=kept)
        return msgspec.structs.replace(facts, loss=loss, repository="/w")
    if group.get("records"):
        return msgspec.structs.replace(facts, repository="/w", records_only=True)
    return facts


@pytest.fixture(scope="module")
def example_rules():
    text = EXAMPLE.read_text(encoding="utf-8")
    return rule_matcher(evaluate(text, 0, CollectedRules()).rules())


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: group["name"])
def test_every_command_of_the_table_gets_its_verdicts(group, example_rules):
    match_rules = example_rules if group.get("rules") else no_rules
    rows = {repr(command): row_of(command, match_rules, group) for command in group["commands"]}
    assert {c: row for c, row in rows.items() if row != group["verdict"]} == {}


def test_the_table_is_long_and_says_nothing_twice():
    commands = [
        (repr(one), group.get("rules", False)) for group in GROUPS for one in group["commands"]
    ]
    assert len(commands) >= 250
    assert len(set(commands)) == len(commands)
    assert all(len(group["verdict"].split()) == len(SITUATIONS) for group in GROUPS)


def groups_that_say(key):
    return [pytest.param(one, id=one["name"]) for one in GROUPS if key in one]


@pytest.mark.parametrize("group", groups_that_say("destroys"))
def test_what_throws_work_away_is_known_and_nothing_else_is(group):
    found = {repr(one): bool(find_destructive_commands(argv_of(one))) for one in group["commands"]}
    assert [one for one, is_found in found.items() if is_found != group["destroys"]] == []


@pytest.mark.parametrize("group", groups_that_say("records"))
def test_what_only_records_work_in_a_repository_is_known(group):
    for command in group["commands"]:
        assert find_commit_folder(plain_commands(command) or (), "/w") == "/w", command
