"""A rule that is saved reaches every agent of the run: living, being born, and later ones."""

import trio

from support.team_in_memory import WORK, calls, open_tree, says, spawn, wait
from swarm.mailbox.protocol.approvals import ApprovalGrant
from swarm.mailbox.protocol.rules import PrefixRule, RuleSet
from swarm.supervisor.approvals.saved_rules import send_rules_to_all

GIT = PrefixRule(pattern=(("git",), ("push",)))
OLD = PrefixRule(pattern=(("make",),))
BOTH = RuleSet(prefixes=(OLD, GIT))


async def save(tree, *prefix):
    """As `approvals/approval_answers.py` does it, once the grant is written."""
    number = len(tree.running.grants)
    grant = ApprovalGrant(grant_id=f"g{number}", path="/root", below=True, prefix=prefix)
    tree.running.grants.add(grant)
    await send_rules_to_all(tree.running, tuple(tree.control.agents.values()))


def begun_and_told(tree, path):
    """For each life: the rules that it began with, and those that its tools judge by at last."""
    return [(spec.rules, props.rules) for spec, props in tree.lives[path]]


async def test_living_agents_are_told_and_later_ones_begin_with_it(tmp_path, autojump_clock):
    scripts = {
        "/root": [calls(spawn("a")), calls(wait("a")), calls(spawn("b")), says("done")],
        "/root/a": [calls(WORK), says("a")],
        "/root/b": [says("b")],
    }
    async with open_tree(tmp_path, scripts, rules=RuleSet(prefixes=(OLD,))) as tree:
        await tree.begin()
        await trio.sleep(5)  # a works for ten seconds
        await save(tree, "git", "push")
        await save(tree, "make")  # stands in the files already
        await tree.until(lambda: tree.ends().get("/root"))
    before = RuleSet(prefixes=(OLD,))
    assert begun_and_told(tree, "/root") == [(before, BOTH)]
    assert begun_and_told(tree, "/root/a") == [(before, BOTH)]
    assert begun_and_told(tree, "/root/b") == [(BOTH, RuleSet())]


async def test_a_life_that_is_being_born_meanwhile_is_told_too(tmp_path, autojump_clock):
    scripts = {
        "/root": [calls(spawn("a")), calls(wait("a")), says("done")],
        "/root/a": [calls(WORK), says("a")],
    }
    async with open_tree(tmp_path, scripts) as tree:
        start = tree.start

        async def slowly(spec, **more):
            if spec.path == "/root/a":
                await save(tree, "git", "push")  # its spec is made, its process is not there yet
            return await start(spec, **more)

        tree.start = slowly
        await tree.begin()
        await tree.until(lambda: tree.ends().get("/root"))
    told = RuleSet(prefixes=(GIT,))
    assert begun_and_told(tree, "/root/a") == [(RuleSet(), told)]
    assert begun_and_told(tree, "/root") == [(RuleSet(), told)]
