"""`explain` says what the judges said: words, rules, verdict and sandbox, complete and harmless."""

import json
import shutil

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.mailbox.protocol.rules import PrefixRule, RuleSet
from swarm.mailbox.protocol.values.limits import DangerFullAccess, Limits, ReadOnly, WorkspaceWrite
from swarm.roles.rules.rule_loader import LoadedRules
from swarm.worker.policy.command_decision import Ask, Refuse, Run, decide_command
from swarm.worker.policy.command_facts import gather_facts
from swarm.worker.policy.rule_matching import rule_matcher
from swarm.worker.programs.explanation import Situation, as_argv, explain_command
from swarm.worker.programs.explanation_output import render_explanation

LOADED = LoadedRules(
    rules=RuleSet(
        prefixes=(
            PrefixRule(pattern=(("git",), ("pull",))),
            PrefixRule(pattern=(("git",), ("push",)), decision="prompt", justification="why\x1b["),
            PrefixRule(pattern=(("reboot",),), decision="forbidden"),
        )
    ),
    files=("/c/a.rules", "/c/a.rules", "/c/b.rules"),
)


def situation(cwd="/nowhere", approval="on-request", sandbox=WorkspaceWrite(), stack="bwrap"):  # noqa: B008
    return Situation(
        limits=Limits(approval=approval, sandbox=sandbox), cwd=str(cwd), loaded=LOADED, stack=stack
    )


@pytest.mark.parametrize(
    ("words", "argv"),
    [
        (["ls"], ["ls"]),
        (["git", "status"], ["git", "status"]),
        (["git status"], ["/bin/bash", "-c", "git status"]),
        (["ls;"], ["/bin/bash", "-c", "ls;"]),
        (["$X"], ["/bin/bash", "-c", "$X"]),
        (["'ls'"], ["/bin/bash", "-c", "'ls'"]),
        (["a", "b c"], ["a", "b c"]),
        ([""], ["/bin/bash", "-c", ""]),
    ],
)
def test_one_argument_with_shell_in_it_is_a_script(words, argv):
    assert list(as_argv(words, "/bin/bash")) == argv


@pytest.mark.parametrize(
    ("command", "verdict", "sandboxed", "cause", "reason"),
    [
        ("ls", "run", True, None, "known to only read"),
        ("make all", "run", True, None, "the sandbox bounds it"),
        ("git pull", "run", False, None, "a rule allows each"),
        ("git push", "ask", True, "rule", "a rule asks about it"),
        ("rm -rf x", "ask", True, "dangerous", "removes by force"),
        ("reboot", "refuse", None, None, "policy forbids commands starting with `reboot`"),
    ],
)
def test_the_verdict_comes_with_its_reason(command, verdict, sandboxed, cause, reason):
    found = explain_command([command], situation())
    assert (found.verdict, found.sandboxed, found.cause) == (verdict, sandboxed, cause)
    assert reason in found.reason


def test_a_question_that_nobody_can_answer_says_so():
    assert "nobody can be asked" in explain_command(["git push"], situation()).reason


def test_the_file_of_a_rule_is_named_beside_it():
    found = explain_command(["git push; reboot"], situation())
    assert [(rule.decision, rule.file) for one in found.commands for rule in one.rules] == [
        ("prompt", "/c/a.rules"),
        ("forbidden", "/c/b.rules"),
    ]


@pytest.mark.parametrize(
    ("words", "reading"),
    [
        (["ls", "-l"], "words"),
        (["ls && pwd"], "script"),
        (["cat <<E\nx\nE"], "complex"),
        (["ls > out"], "unreadable"),
        (["apply_patch <<'E'\n*** Begin Patch\n*** Delete File: a\n*** End Patch\nE"], "patch"),
    ],
)
def test_it_is_said_how_the_command_was_read(words, reading):
    assert explain_command(words, situation()).reading == reading


def test_the_sandbox_is_the_one_that_would_be_made(tmp_path):
    (tmp_path / ".git").mkdir()
    box = explain_command(["ls"], situation(cwd=tmp_path)).sandbox
    assert (box.stack, box.writable, box.network) == ("bwrap", (str(tmp_path),), False)
    assert str(tmp_path / ".git") in box.read_only
    assert explain_command(["ls"], situation(sandbox=ReadOnly())).sandbox.writable == ()
    assert explain_command(["ls"], situation(sandbox=DangerFullAccess())).sandbox.stack == "none"


def test_what_would_be_thrown_away_is_named():
    found = explain_command(["cd build && git clean -fdx"], situation())
    assert found.throws_away == ("git clean -fdx",)
    assert "throws    work away: git clean -fdx" in render_explanation(found)


def test_a_machine_without_a_sandbox_is_told():
    assert "swarm doctor" in explain_command(["ls"], situation(stack="none")).sandbox.problem


def test_the_json_has_every_field():
    found = json.loads(msgspec.json.encode(explain_command(["ls"], situation())))
    assert found["cause"] is None
    assert found["meanings"] == [{"type": "list_files", "cmd": "ls"}]
    assert found["commands"][0]["rules"] == []


def test_a_broken_rule_file_is_shown_in_the_place_of_rules():
    broken = LoadedRules(rules=RuleSet(broken="/c/a.rules:3: bad"))
    found = explain_command(["make"], msgspec.structs.replace(situation(), loaded=broken))
    assert (found.verdict, found.cause) == ("ask", "rule")
    assert "rules     none is known: /c/a.rules:3: bad" in render_explanation(found)


def test_the_text_for_a_person():
    text = render_explanation(explain_command(["git", "push"], situation()))
    assert text == (
        "command   git push\n"
        "in        /nowhere\n"
        "read as   a program and its arguments\n"
        "words     git push\n"
        "          not known safe: it is not on the list of commands that are known to only read\n"
        f"          is {shutil.which('git')}; held: no agent writes it\n"
        "          rule prompt `git push` in /c/a.rules: why�[\n"
        "approval  on-request; nobody is asked\n"
        "sandbox   workspace-write by bwrap; network off\n"
        "          may write: a private /tmp\n"
        "verdict   asks first (rule); after a yes it runs in the sandbox\n"
        "because   a rule asks about it (`git push` requires approval: why�[); nobody can be "
        "asked, so it would be refused\n"
    )


def test_a_program_that_agents_may_exchange_is_named_and_stays_inside_as_in_a_run(
    tmp_path, monkeypatch
):
    tool = tmp_path / "bin/make"
    tool.parent.mkdir()
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tool.parent}:/usr/bin:/bin")
    loaded = LoadedRules(rules=RuleSet(prefixes=(PrefixRule(pattern=(("make",),)),)))
    here = msgspec.structs.replace(situation(cwd=tmp_path), loaded=loaded)
    found = explain_command(["make"], here)
    assert (found.verdict, found.sandboxed) == ("run", True)
    assert found.commands[0].program == str(tool)
    assert str(tmp_path) in found.commands[0].unheld
    assert "so it stays inside" in found.reason
    assert f"is {tool}; not held: " in render_explanation(found)


SCRIPTS = st.one_of(
    st.text(max_size=40),
    st.lists(
        st.sampled_from(["git pull", "git push", "ls", "rm -rf x", "reboot", "make", "&&", ";",
                         "|", "\n", ">", "$X", "'", '"', "\x1b[2J", "\u202e"]),
        max_size=6,
    ).map(" ".join),
)  # fmt: skip


@given(SCRIPTS, st.sampled_from(["untrusted", "on-failure", "on-request", "never"]))
def test_an_explanation_never_differs_from_the_decision_and_is_always_printable(script, approval):
    here = situation(approval=approval)
    found = explain_command([script], here)
    argv = as_argv([script], here.shell)
    verdict = decide_command(
        gather_facts(argv, here.limits, match_rules=rule_matcher(LOADED.rules))
    )
    kinds = {"run": Run, "ask": Ask, "refuse": Refuse}
    if not found.throws_away:  # else the explanation has looked further than these facts
        assert isinstance(verdict, kinds[found.verdict])
    assert render_explanation(found).replace("\n", "").isprintable()


@pytest.mark.parametrize("stack", ["bwrap", "landlock"])
def test_a_commit_that_was_allowed_beforehand_is_allowed_in_both_stacks(tmp_path, stack):
    (tmp_path / ".git").mkdir()
    allowed = msgspec.structs.replace(situation(tmp_path, stack=stack), allow_commit=True)
    assert explain_command(["git", "commit", "-m", "one"], allowed).verdict == "run"
    asked = explain_command(["git", "commit", "-m", "one"], situation(tmp_path, stack=stack))
    assert asked.cause == "commit"
