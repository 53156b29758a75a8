"""An allow takes a command out of the sandbox only where its words say all; files are real."""

import subprocess

import msgspec
import pytest

from swarm.mailbox.base.held_programs import find_writable_places
from swarm.mailbox.protocol.rules import PrefixRule, RuleSet
from swarm.mailbox.protocol.values.limits import Limits, WorkspaceWrite
from swarm.worker.policy.command_decision import NOT_ALL_SAID, Ask, Run, decide_command
from swarm.worker.policy.command_facts import EscalationRequest, gather_facts
from swarm.worker.policy.lasting_yes import find_lasting
from swarm.worker.policy.rule_coverage import Surroundings, why_beyond
from swarm.worker.policy.rule_matching import rule_matcher

LIMITS = Limits(sandbox=WorkspaceWrite())


@pytest.fixture
def here(tmp_path):
    """A person's repository, whose `.git` no command may write, in a home of its own."""
    project, home = tmp_path / "p", tmp_path / "home"
    project.mkdir()
    home.mkdir()
    git(project, "init", "-q")
    policy = WorkspaceWrite(exclude_tmpdir_env_var=True, exclude_slash_tmp=True)
    return Surroundings(str(project), find_writable_places(policy, str(project)), str(home))


def git(folder, *words):
    subprocess.run(["git", "-C", folder, *words], check=True, capture_output=True)


def facts_of(script, rule, here, *, escalated=False, **more):
    words = tuple((word,) for word in rule.split())
    rules = RuleSet(prefixes=(PrefixRule(pattern=words, **more), PrefixRule(pattern=(("cd",),))))
    asked = EscalationRequest(permissions="require_escalated" if escalated else "use_default")
    facts = gather_facts(
        ("/bin/bash", "-c", script), LIMITS, asked, match_rules=rule_matcher(rules)
    )
    return msgspec.structs.replace(facts, beyond=why_beyond(facts.commands, here))


def leaves(script, rule, here, **more):
    verdict = decide_command(facts_of(script, rule, here, **more))
    assert isinstance(verdict, Run)
    assert verdict.sandboxed is verdict.notice.startswith(NOT_ALL_SAID)
    return not verdict.sandboxed


def test_git_leaves_in_the_persons_own_repository(here):
    assert leaves("git fetch origin", "git fetch", here)
    assert leaves("git -C . status", "git -C . status", here)


def test_git_stays_inside_where_an_agent_can_write_its_settings(here, tmp_path):
    nested = tmp_path / "p/nested"
    nested.mkdir()
    git(nested, "init", "-q")
    assert not leaves("git fetch", "git fetch", here._replace(folder=str(nested)))
    assert not leaves("cd nested && git fetch", "git fetch", here)
    assert not leaves("git -C nested fetch", "git -C nested fetch", here)


def test_a_folder_that_looks_like_a_bare_repository_is_one(here, tmp_path):
    bare = tmp_path / "p/bare"
    bare.mkdir()
    for name in ("HEAD", "config"):
        (bare / name).write_text("")
    for name in ("objects", "refs"):
        (bare / name).mkdir()
    assert not leaves("git fetch", "git fetch", here._replace(folder=str(bare)))


def test_a_git_file_that_leads_to_a_writable_folder_is_found(here, tmp_path):
    inner = tmp_path / "p/inner"
    inner.mkdir()
    (inner / ".git").write_text(f"gitdir: {tmp_path}/p/.git\n")
    assert not leaves("git fetch", "git fetch", here._replace(folder=str(inner)))


@pytest.mark.parametrize(
    "line",
    ["[core]\nhooksPath = .husky/_", "[core]\nfsmonitor = ./watch.sh", "[include]\npath = ../inc",
     "[core]\nsshCommand = tools/ssh -v", "[alias]\nx = !./x.sh", "[filter \"a\"]\nclean = ./c.py",
     "[diff \"a\"]\ntextconv = \"tools/x y\"", "[core]\nattributesFile = attrs"],
)  # fmt: skip
def test_a_setting_that_leads_to_a_file_of_agents_keeps_git_inside(here, line):
    with open(f"{here.folder}/.git/config", "a") as file:
        file.write(f"\n{line}\n")
    assert not leaves("git fetch", "git fetch", here)


def test_settings_of_the_home_folder_count_too_and_ordinary_ones_do_no_harm(here, tmp_path):
    git(tmp_path / "p", "remote", "add", "origin", "git@example.org:a/b.git")
    (tmp_path / "home/.gitconfig").write_text(
        "[user]\nname = A / B\n[core]\neditor = vim\n[credential]\nhelper = /usr/bin/store\n"
        '[url "https://a/"]\ninsteadOf = a:\n'
    )
    assert leaves("git fetch", "git fetch", here)
    with (tmp_path / "home/.gitconfig").open("a") as file:
        file.write(f"[core]\nhooksPath = {here.folder}/hooks\n")
    assert not leaves("git fetch", "git fetch", here)


@pytest.mark.parametrize(
    ("script", "rule"),
    [("sort a -o b", "sort a"), ("make", "make"), ("npm test", "npm test"), ("pytest", "pytest"),
     ("python3 x.py", "python3 x.py"), ("bash x.py", "bash x.py"), ("awk -f x.py a", "awk -f x.py"),
     ("make -C /etc --file=x.py", "make -C /etc"), ("python3 -m x", "python3 -m x")],
)  # fmt: skip
def test_what_the_rule_does_not_say_stays_inside_unless_it_is_unconfined(here, script, rule):
    with open(f"{here.folder}/x.py", "w") as file:
        file.write("1")
    assert not leaves(script, rule, here)
    assert leaves(script, rule, here, unconfined=True)


def test_a_script_that_no_agent_can_write_leaves(here, tmp_path):
    (tmp_path / "home/x.py").write_text("1")
    assert leaves(f"python3 {tmp_path}/home/x.py", f"python3 {tmp_path}/home/x.py", here)


def test_where_the_rule_does_not_say_it_all_an_escalation_is_asked_about(here):
    verdict = decide_command(facts_of("make", "make", here, escalated=True))
    assert isinstance(verdict, Ask)
    verdict = decide_command(facts_of("make", "make", here, escalated=True, unconfined=True))
    assert isinstance(verdict, Run)


def test_one_rule_that_says_all_is_enough(here):
    allowing = [PrefixRule(pattern=(("git",),)), PrefixRule(pattern=(("git",), ("tag",)))]
    for rules in (allowing, allowing[::-1]):
        matcher = rule_matcher(RuleSet(prefixes=tuple(rules)))
        facts = gather_facts(("/bin/bash", "-c", "git tag v1"), LIMITS, match_rules=matcher)
        assert why_beyond(facts.commands, here) == ""


def lasting(script, here):
    return find_lasting(("/bin/bash", "-c", script), (), here)


def test_a_lasting_yes_is_bound_to_the_files_that_the_command_names(here):
    path = f"{here.folder}/deploy.sh"
    with open(path, "w") as file:
        file.write("one")
    first = lasting("ssh host < deploy.sh", here)
    assert set(first.files) == {path}
    assert first == lasting("ssh host < deploy.sh", here)
    with open(path, "w") as file:
        file.write("two")
    assert lasting("ssh host < deploy.sh", here) != first


def test_a_folder_is_bound_with_what_is_below_it(here, tmp_path):
    below = tmp_path / "p/k8s/a"
    below.mkdir(parents=True)
    first = lasting("kubectl apply -f k8s", here)
    (below / "x.yaml").write_text("1")
    assert lasting("kubectl apply -f k8s", here) != first


def test_no_yes_lasts_for_what_cannot_be_bound(here, tmp_path):
    (tmp_path / "p/nested").mkdir()
    git(tmp_path / "p/nested", "init", "-q")
    big = tmp_path / "p/big"
    big.mkdir()
    for number in range(400):
        (big / str(number)).write_text("")
    for script in ("make", "npm test | cat", "git -C nested push", "kubectl apply -f big"):
        assert lasting(script, here).why_not, script
    for script in ("curl https://a", "cd nested && ls", "git push", "apt-get install x"):
        assert lasting(script, here) == lasting("true", here), script
