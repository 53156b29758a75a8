"""A task file narrows freely; what it would widen is refused until its person says so."""

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swarm.mailbox.base.errors import UsageError
from swarm.roles.config.layers.trust import save_trust_decision
from swarm.supervisor.clients.cli.main import run_cli
from swarm.supervisor.clients.cli.run_setup.options import RunOptions
from swarm.supervisor.clients.cli.run_setup.run_settings import load_settings
from swarm.supervisor.clients.cli.run_setup.task_file import read_task
from swarm.supervisor.clients.cli.run_setup.task_trust import check_task_trust, task_as_project

FREE = [
    # configuration, front matter
    ("", "sandbox: read-only"),
    ("", "sandbox: workspace-write"),
    ('sandbox_mode = "danger-full-access"', "sandbox: danger-full-access"),
    ("", "approval: untrusted"),
    ("", "approval: on-failure"),
    ("", "approval: never"),
    ('approval_policy = "never"', "approval: never"),
    ("", "reviewer: nobody"),
    ("", "reviewer: person"),
    ('approvals_reviewer = "nobody"', "reviewer: person"),
    ("", "allow_commit: false"),
    ("allow_commit = true", "allow_commit: true"),
    ("", "merge: ask"),
    ("", "merge: leave"),
    ('merge = "auto"', "merge: auto"),
    ("", "isolation: auto"),
    ("", "max_agents: 40\nmax_depth: 9\nmax_spawns: 3000"),
    ("[agents]\nmax_threads = 3\nmax_depth = 2", "max_agents: 4\nmax_depth: 2"),
    ("", "provider: local"),
    ('model_provider = "openai"', "provider: local"),
    ("", "model: other\neffort: high"),
    ('model_provider = "local"', "provider: local"),
    ("", "budget: {tokens: 99999999, usd: 1000}"),
    ("[budget]\ntokens = 500", "budget: {tokens: 400}"),
    ("", "deadline: 90h"),
    ("deadline = '1h'", "deadline: 30m"),
    ("[sandbox_workspace_write]\nnetwork_access = true", "network: {allow: [a.org]}"),
    ("[network]\nenabled = true\ndomains = {'**.a.org' = 'allow'}", "network: {allow: [x.a.org]}"),
    ("[network]\nenabled = true\ndomains = {'a.org' = 'allow'}", "network: {deny: [a.org]}"),
    ("", "output_schema: {type: object}"),
    ("", "output_schema: schema.json"),
    ("", "context: ['*.py']"),
    ("", "fan_out: {each: {lines: ls}, prompt: x}"),
    ("", "goal: {text: x, verify: [make, ls]}"),
    ('approval_policy = "untrusted"', "goal: {text: x, judge: explorer}"),
]
WIDER = [
    ("", "sandbox: danger-full-access", "sandbox", "-s danger-full-access"),
    ('sandbox_mode = "read-only"', "sandbox: workspace-write", "sandbox", "-s workspace-write"),
    (
        "default_permissions = 'p'\n[permissions.p.filesystem]\n':root' = 'read'",
        "sandbox: read-only", "sandbox", "-s read-only",
    ),
    ('approval_policy = "untrusted"', "approval: on-request", "approval", "-a on-request"),
    ('approval_policy = "untrusted"', "approval: never", "approval", "-a never"),
    ('approval_policy = "untrusted"', "approval: on-failure", "approval", "-a on-failure"),
    ('approval_policy = "never"', "approval: on-request", "approval", "-a on-request"),
    ('sandbox_mode = "danger-full-access"', "approval: never", "approval", "-a never"),
    (
        "approval_policy = {granular = {sandbox_approval = true, rules = true, "
        "mcp_elicitations = false}}", "approval: on-request", "approval", "-a on-request",
    ),
    ('approvals_reviewer = "user"', "reviewer: guardian", "reviewer", "--reviewer guardian"),
    ('approvals_reviewer = "nobody"', "reviewer: guardian", "reviewer", "--reviewer guardian"),
    ("", "allow_commit: true", "allow_commit", "--allow-commit"),
    ("", "merge: auto", "merge", "--merge auto"),
    ('merge = "leave"', "merge: auto", "merge", "--merge auto"),
    ("[agents]\nmax_threads = 3", "max_agents: 5", "max_agents", "--max-agents 5"),
    ("[agents]\nmax_depth = 1", "max_depth: 2", "max_depth", "--max-depth 2"),
    ("[agents]\nmax_total = 5", "max_spawns: 6", "max_spawns", "--max-spawns 6"),
    ("", "provider: openai", "provider", "--provider openai"),
    ('model_provider = "local"', "provider: openai", "provider", "--provider openai"),
    ("[budget]\ntokens = 500", "budget: {tokens: 501}", "budget.tokens", "--budget-tokens 501"),
    ("deadline = '1h'", "deadline: 2h", "deadline", "--deadline 2h"),
    ("", "network: {allow: [a.org]}", "network", "--allow-domain 'a.org'"),
    ("", "network: {}", "network", "-c network.enabled=true"),
    (
        "[network]\nenabled = true\ndomains = {'a.org' = 'deny'}", "network: {allow: [a.org]}",
        "network", "--allow-domain 'a.org'",
    ),
    ("", "output_schema: /etc/x.json", "output_schema", "--output-schema /etc/x.json"),
    ("", "output_schema: ../x.json", "output_schema", "--output-schema ../x.json"),
    ("", "output_schema: link.json", "output_schema", "--output-schema link.json"),
    ("", "fan_out: {each: {csv: /etc/passwd}, prompt: x}", "fan_out.each.csv", "-C"),
    (
        'approval_policy = "untrusted"', "fan_out: {each: {lines: ls}, prompt: x}",
        "fan_out.each.lines", "-a on-request",
    ),
    (
        'approval_policy = "untrusted"', "goal: {text: x, verify: make}",
        "goal.verify", "-a on-request",
    ),
]  # fmt: skip


class Place:
    """A home with a configuration, and a folder that somebody else made."""

    def __init__(self, folder):
        self.home, self.cloned = folder / "home", folder / "cloned"
        for one in (self.home, self.cloned):
            one.mkdir(parents=True, exist_ok=True)
        (self.cloned / "schema.json").write_text('{"type": "object"}')
        if not (self.cloned / "link.json").is_symlink():
            (self.cloned / "link.json").symlink_to("/etc/hostname")

    def check(self, config, front, *, answering="nowhere", ask=None, **options):
        (self.home / "config.toml").write_text(config)
        file = self.cloned / "task.md"
        file.write_text(f"---\n{front}\n---\nDo it.\n")
        task = read_task(str(file), prompt=None, read_stdin=bytes)
        environment = {"SWARM_HOME": str(self.home), "HOME": str(self.home)}
        chosen = RunOptions(cd=str(self.cloned), **options)
        found = load_settings(chosen, task, environment)
        return check_task_trust(found, answering=answering, ask=ask)

    def trust(self):
        task = read_task(str(self.cloned / "task.md"), prompt=None, read_stdin=bytes)
        save_trust_decision(self.home, [task_as_project(task)], trusted=True)


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)


@pytest.mark.parametrize(("config", "front"), FREE)
def test_a_task_file_narrows_freely(place, config, front):
    assert place.check(config, front) == ()


@pytest.mark.parametrize(("config", "front", "key", "flag"), WIDER)
def test_what_it_would_widen_is_refused_with_the_line_the_key_and_the_flag(
    place, config, front, key, flag
):
    with pytest.raises(UsageError) as caught:
        place.check(config, front)
    said = str(caught.value)
    assert f"task.md, line 2, key {key}: " in said
    assert flag in said
    assert "`swarm trust " in said
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(("config", "front", "key", "flag"), WIDER)
def test_what_was_trusted_counts_until_a_letter_of_the_file_changes(
    place, config, front, key, flag
):
    with pytest.raises(UsageError):
        place.check(config, front)
    place.trust()
    widened = place.check(config, front)
    assert [one.split(" ")[0] for one in widened] == [key]
    with pytest.raises(UsageError):
        place.check(config, f"{front}\n# changed")


def test_what_the_person_says_by_flag_widens_without_a_question(place):
    assert place.check("", "sandbox: danger-full-access", sandbox="danger-full-access") == ()
    assert place.check("", "sandbox: danger-full-access", sandbox="read-only") == ()
    assert place.check("", "network: {allow: [a.org]}", allow_domain=("**.org",)) == ()
    assert place.check("", "provider: openai", provider="openai") == ()


def test_at_a_terminal_the_person_is_asked_once_and_a_no_is_remembered(place):
    asked = []

    def answer(yes):
        def ask(task, found):
            asked.append([one.key for one in found])
            return yes

        return ask

    front = "sandbox: danger-full-access\nallow_commit: true"
    with pytest.raises(UsageError):
        place.check("", front, answering="terminal", ask=answer(False))
    with pytest.raises(UsageError):
        place.check("", front, answering="terminal", ask=answer(True))
    assert asked == [["sandbox", "allow_commit"]]
    other = f"{front}\ndeadline: 1h"
    yes = place.check("", other, answering="terminal", ask=answer(True))
    assert yes == ("sandbox danger-full-access", "allow_commit true")
    assert place.check("", other) == yes


def test_a_person_who_answers_here_is_not_replaced_by_a_file(place):
    assert place.check("", "reviewer: guardian") == ()
    with pytest.raises(UsageError, match="key reviewer: guardian is more"):
        place.check("", "reviewer: guardian", answering="terminal")


def test_what_comes_by_stdin_is_the_persons_own_word(place):
    task = read_task(
        "-", prompt=None, read_stdin=lambda: b"---\nsandbox: danger-full-access\n---\nx"
    )
    environment = {"SWARM_HOME": str(place.home), "HOME": str(place.home)}
    found = load_settings(RunOptions(cd=str(place.cloned)), task, environment)
    assert check_task_trust(found) == ()


def test_a_project_that_is_marked_as_untrusted_stays_so(place):
    front = "sandbox: danger-full-access"
    marked = f'[projects."{place.cloned}"]\ntrust_level = "untrusted"\n'
    with pytest.raises(UsageError):
        place.check("", front)
    place.trust()
    assert place.check("", front)
    with pytest.raises(UsageError):
        place.check(marked, front)


RANK = {"read-only": 0, "workspace-write": 1, "danger-full-access": 2}


@given(own=st.sampled_from(sorted(RANK)), wanted=st.sampled_from(sorted(RANK)))
@settings(max_examples=9, deadline=None)
def test_no_file_ever_gets_a_wider_sandbox_than_the_configuration(tmp_path_factory, own, wanted):
    place = Place(Path(tmp_path_factory.mktemp("task")))
    try:
        place.check(f'sandbox_mode = "{own}"', f"sandbox: {wanted}")
        passed = True
    except UsageError:
        passed = False
    assert passed == (RANK[wanted] <= RANK[own])


def test_trust_shows_a_task_file_and_remembers_it(place, monkeypatch, capfd):
    monkeypatch.setenv("SWARM_HOME", str(place.home))
    monkeypatch.chdir(place.cloned)
    front = "sandbox: danger-full-access"
    with pytest.raises(UsageError):
        place.check("", front)
    assert run_cli(["trust", "task.md", "--yes"]) == 0
    said = capfd.readouterr().out
    assert 'sandbox: "danger-full-access"' in said
    assert "| Do it." in said
    assert place.check("", front)
    assert run_cli(["trust", "task.md", "--revoke"]) == 0
    with pytest.raises(UsageError):
        place.check("", front)
    assert run_cli(["trust", "--yes"]) == 0  # the folder: what lies in it is shown as well
    assert place.check("", front)
    assert run_cli(["trust", "--revoke"]) == 0
    assert os.path.realpath(place.cloned / "task.md") in capfd.readouterr().out
    with pytest.raises(UsageError):
        place.check("", front)
