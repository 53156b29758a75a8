"""A rule that is saved reaches every agent of the run: living, starting, and later ones."""

import trio

from support.team_in_memory import WORK, calls, open_team, says, spawn, wait
from swarm.mailbox.protocol.approvals import ApprovalGrant
from swarm.mailbox.protocol.rules import PrefixRule, RuleSet
from swarm.supervisor.context.saved_rules import send_rules_to_all

GIT = PrefixRule(pattern=(("git",), ("push",)))
OLD = PrefixRule(pattern=(("make",),))
BOTH = RuleSet(prefixes=(OLD, GIT))


async def save(team, *prefix):
    """As `approvals/approval_answers.py` does it, once the grant is written."""
    number = len(team.running.grants)
    grant = ApprovalGrant(grant_id=f"g{number}", path="/root", below=True, prefix=prefix)
    team.running.grants.add(grant)
    await send_rules_to_all(team.running, tuple(team.control.agents.values()))


def first_and_last_rules(team, path):
    """For each process: the rules that it began with, and those that it judged by at last."""
    return [(spec.rules, current.spec.rules) for spec, current in team.lives[path]]


async def test_living_agents_get_it_and_later_ones_begin_with_it(tmp_path, autojump_clock):
    scripts = {
        "/root": [calls(spawn("a")), calls(wait("a")), calls(spawn("b")), says("done")],
        "/root/a": [calls(WORK), says("a")],
        "/root/b": [says("b")],
    }
    async with open_team(tmp_path, scripts, rules=RuleSet(prefixes=(OLD,))) as team:
        await team.begin()
        await trio.sleep(5)  # a works for ten seconds
        await save(team, "git", "push")
        await save(team, "make")  # stands in the files already
        await team.until(lambda: team.ends().get("/root"))
    before = RuleSet(prefixes=(OLD,))
    assert first_and_last_rules(team, "/root") == [(before, BOTH)]
    assert first_and_last_rules(team, "/root/a") == [(before, BOTH)]
    assert first_and_last_rules(team, "/root/b") == [(BOTH, BOTH)]


async def test_an_agent_that_is_starting_meanwhile_gets_it_too(tmp_path, autojump_clock):
    scripts = {
        "/root": [calls(spawn("a")), calls(wait("a")), says("done")],
        "/root/a": [calls(WORK), says("a")],
    }
    async with open_team(tmp_path, scripts) as team:
        start = team.start

        async def slowly(spec, **more):
            if spec.path == "/root/a":
                await save(team, "git", "push")  # its spec is made, its process is not there yet
            return await start(spec, **more)

        team.start = slowly
        await team.begin()
        await team.until(lambda: team.ends().get("/root"))
    learnt = RuleSet(prefixes=(GIT,))
    assert first_and_last_rules(team, "/root/a") == [(RuleSet(), learnt)]
    assert first_and_last_rules(team, "/root") == [(RuleSet(), learnt)]
