"""Approve and remember: the line that is written, and every file that is not touched."""

import os
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.mailbox.protocol.rules import NetworkRule, PrefixRule
from swarm.roles.rules import rule_writer
from swarm.roles.rules.evaluate import evaluate
from swarm.roles.rules.evaluator_client import CollectedRules
from swarm.roles.rules.matching import BANNED_PREFIXES
from swarm.roles.rules.rule_writer import RuleNotSaved, append_network_rule, append_prefix_rule


def test_a_prefix_is_written_as_a_person_would_write_it(tmp_path):
    path = append_prefix_rule(tmp_path / "config" / "rules", ["touch", "/x", 'a "b" \\ é'])
    assert path == tmp_path / "config" / "rules" / "default.rules"
    assert path.read_text() == (
        'prefix_rule(pattern=["touch", "/x", "a \\"b\\" \\\\ é"], decision="allow")\n'
    )
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_a_host_is_written_with_its_reason(tmp_path):
    append_network_rule(tmp_path, "API.example.com:8443", "https", "allow")
    path = append_network_rule(tmp_path, "bad.example", "http", "deny")
    assert path.read_text() == (
        'network_rule(host="api.example.com:8443", protocol="https", decision="allow", '
        'justification="Allow https_connect access to api.example.com:8443")\n'
        'network_rule(host="bad.example", protocol="http", decision="deny", '
        'justification="Deny http access to bad.example")\n'
    )
    rules = evaluate(path.read_text(), 0, CollectedRules()).rules()
    assert rules.network[0] == NetworkRule(
        host="api.example.com:8443", protocol="https", decision="allow",
        justification="Allow https_connect access to api.example.com:8443",
    )  # fmt: skip


def test_a_line_is_added_once_after_what_is_there(tmp_path):
    path = tmp_path / "default.rules"
    path.write_text('# mine\nprefix_rule(pattern=["ls"])')
    for _ in range(2):
        append_prefix_rule(tmp_path, ["make"])
    assert path.read_text() == (
        '# mine\nprefix_rule(pattern=["ls"])\nprefix_rule(pattern=["make"], decision="allow")\n'
    )
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["default.rules"]


def test_many_at_once_lose_nothing(tmp_path):
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: append_prefix_rule(tmp_path, ["make", str(n % 12)]), range(24)))
    lines = (tmp_path / "default.rules").read_text().splitlines()
    assert len(lines) == len(set(lines)) == 12


@pytest.mark.parametrize("prefix", sorted(BANNED_PREFIXES))
def test_a_banned_prefix_is_never_saved(prefix, tmp_path):
    with pytest.raises(RuleNotSaved):
        append_prefix_rule(tmp_path, prefix)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("prefix", [[], [""], ["a\nb"], ["a\x1b[2J"], ["a\udc80"], ["a" * 9000]])
def test_an_impossible_prefix_is_never_saved(prefix, tmp_path):
    with pytest.raises(RuleNotSaved):
        append_prefix_rule(tmp_path, prefix)
    assert not list(tmp_path.iterdir())


def test_more_words_than_a_banned_prefix_may_be_saved(tmp_path):
    append_prefix_rule(tmp_path, ["git", "pull"])
    assert "git" in (tmp_path / "default.rules").read_text()


def test_links_are_refused_and_what_they_point_to_is_untouched(tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("as it was\n")
    (tmp_path / "rules").mkdir(mode=0o700)
    (tmp_path / "rules" / "default.rules").symlink_to(victim)
    with pytest.raises(RuleNotSaved):
        append_prefix_rule(tmp_path / "rules", ["make"])
    (tmp_path / "linked").symlink_to(tmp_path / "rules")
    with pytest.raises(RuleNotSaved):
        append_prefix_rule(tmp_path / "linked", ["make"])
    assert victim.read_text() == "as it was\n"


def test_a_fifo_a_folder_and_what_others_may_write_are_refused(tmp_path):
    for number, make in enumerate((os.mkfifo, os.mkdir)):
        folder = tmp_path / str(number)
        folder.mkdir(mode=0o700)
        make(folder / "default.rules")
        with pytest.raises(RuleNotSaved):
            append_prefix_rule(folder, ["make"])
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    with pytest.raises(RuleNotSaved, match="others may write"):
        append_prefix_rule(shared, ["make"])


def test_another_users_file_is_refused(tmp_path, monkeypatch):
    mine = os.getuid()
    monkeypatch.setattr(rule_writer.os, "getuid", lambda: mine + 1)
    with pytest.raises(RuleNotSaved, match="someone else"):
        append_prefix_rule(tmp_path, ["make"])


def test_a_file_that_would_grow_too_long_stays_as_it_is(tmp_path):
    path = tmp_path / "default.rules"
    text = "# " + "x" * (256 * 1024 - 10) + "\n"
    path.write_text(text)
    with pytest.raises(RuleNotSaved, match="256 KiB"):
        append_prefix_rule(tmp_path, ["make"])
    assert path.read_text() == text


@given(st.lists(st.text(max_size=20), min_size=1, max_size=5))
def test_what_is_saved_reads_back_as_exactly_these_words(tmp_path_factory, words):
    folder = tmp_path_factory.mktemp("rules")
    try:
        path = append_prefix_rule(folder, words)
    except RuleNotSaved:
        return
    rules = evaluate(path.read_text(encoding="utf-8"), 0, CollectedRules()).rules()
    assert rules.prefixes == (PrefixRule(pattern=tuple((word,) for word in words)),)
