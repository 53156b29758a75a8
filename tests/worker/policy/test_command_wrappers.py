"""What a rule forbids is passed by no word in front of it; what it allows is widened by none."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.mailbox.protocol.rules import PrefixRule, RuleSet
from swarm.mailbox.protocol.values.limits import DangerFullAccess, Limits, WorkspaceWrite
from swarm.worker.policy.command_decision import Ask, Refuse, Run, decide_command
from swarm.worker.policy.command_facts import gather_facts
from swarm.worker.policy.command_wrappers import MAX_LAYERS, unwrap_command, unwrap_layers
from swarm.worker.policy.rule_matching import rule_matcher
from swarm.worker.policy.script_commands import named_commands
from swarm.worker.policy.shell_words import ShellWord


def rules(decision):
    return RuleSet(prefixes=(PrefixRule(pattern=(("git",), ("push",)), decision=decision),))


def verdict_of(script, decision, *, sandbox=WorkspaceWrite(), argv=None):  # noqa: B008
    limits = Limits(sandbox=sandbox)
    words = argv or ("bash", "-c", script)
    return decide_command(gather_facts(words, limits, match_rules=rule_matcher(rules(decision))))


PADDING = "# much ado\n" * 2_000
WRAPPED = [
    "git push",
    "time git push",
    "time -p git push origin main",
    "time -f %e git push",
    "coproc git push",
    "coproc N { git push; }",
    "! git push",
    "exec git push",
    "exec -a x git push",
    "command git push",
    "command -p git push",
    "builtin command git push",
    "sudo git push",
    "sudo -u bob -E A=b git push",
    "sudo --user=bob -- git push",
    "doas -u bob git push",
    "env git push",
    "env -i A=b -u C git push",
    "env -S 'git push'",
    "env -S'git push' -f",
    "env --split-string='git push'",
    "nice -n 5 git push",
    "nice -5 git push",
    "ionice -c2 -n 0 git push",
    "chrt -f 5 git push",
    "taskset -c 0,1 git push",
    "nohup git push",
    "setsid -w git push",
    "stdbuf -oL git push",
    "timeout -k 3 5 git push",
    "timeout --foreground 5 git push",
    "unshare -r git push",
    "flock /tmp/l git push",
    "flock /tmp/l -c 'git push'",
    "chroot /x git push",
    "strace -f -o /tmp/t git push",
    "xargs git push",
    "echo origin | xargs -I{} -n1 git push {}",
    "parallel git push ::: a",
    "find . -maxdepth 0 -exec git push ';'",
    "find . -exec sh -c 'git push' ';'",
    "busybox env git push",
    "sh -c 'git push'",
    "dash -c 'git push'",
    "bash -exc \"sh -c 'time git push'\"",
    "eval git push",
    "eval 'git push'",
    "trap 'git push' EXIT",
    "alias p='git push'; p",
    "watch 'git push'",
    "su bob -c 'git push'",
    "X=1 git push",
    "git push > log",
    "git push 2>&1 | tee log",
    "git push $X",
    "git push *",
    "(git push)",
    "{ git push; }",
    "if true; then git push; fi",
    "for i in a; do git push; done",
    "while git push; do :; done",
    "f() { git push; }; f",
    "echo $(git push)",
    "cat <(git push)",
    "git push & wait",
    "git push # now",
    "\\git push",
    "g\\it push",
    "'git' push",
    "g''it p\"us\"h",
    "$'git' push",
    "echo 'git push' | sh",
    "sh <<EOF\ngit push\nEOF",
    "sh <<EOF\ntime git push\nEOF",
    "ls && time /usr/bin/git push",
    "time " * 900 + "git push",
    "true $X; " * 1_500 + "git push",
    PADDING + "X=1 git push",
    PADDING + "X=1 time 'git' push",
]


@pytest.mark.parametrize("script", WRAPPED)
def test_what_a_rule_forbids_is_forbidden_behind_every_word(script):
    assert isinstance(verdict_of(script, "forbidden"), Refuse)
    assert isinstance(verdict_of(script, "forbidden", sandbox=DangerFullAccess()), Refuse)


@pytest.mark.parametrize("script", WRAPPED)
def test_what_a_rule_asks_about_is_asked_about_behind_every_word(script):
    assert isinstance(verdict_of(script, "prompt"), Ask)


@pytest.mark.parametrize("script", WRAPPED[1:-2])
def test_what_a_rule_allows_does_not_leave_the_sandbox_behind_any_word(script):
    if script.startswith("sh -c") or script == "git push":
        return  # read as what it is
    verdict = verdict_of(script, "allow")
    free = isinstance(verdict, Run) and not verdict.sandboxed
    assert not free, verdict


@pytest.mark.parametrize(
    "script",
    [
        "echo git push",
        "grep -r 'git push' .",
        "git commit -m 'git push'",
        "git log --grep push",
        "time git status",
        "sudo -E echo git push",
        "command -v git",
        "trap - EXIT",
        "cat <<EOF\ngit push\nEOF",
        "printf 'git push\\n' > notes",
        "git stash push",
        "echo 'not git' # git push",
    ],
)
def test_what_only_speaks_of_it_is_no_such_command(script):
    assert isinstance(verdict_of(script, "forbidden"), Run)


@pytest.mark.parametrize("argv", [("time", "git", "push"), ("env", "A=b", "git", "push")])
def test_an_argv_without_a_shell_is_looked_at_in_the_same_way(argv):
    assert isinstance(verdict_of("", "forbidden", argv=argv), Refuse)


FRONT = st.sampled_from(
    ["time", "time -p", "coproc", "!", "exec", "command", "sudo -u x", "env A=b", "nice -n 3",
     "nohup", "setsid", "timeout 5", "stdbuf -oL", "ionice -c 3", "doas", "busybox", "xargs",
     "X=1", "builtin", "taskset 1", "flock /l"]
)  # fmt: skip


@given(
    front=st.lists(FRONT, max_size=6), tail=st.sampled_from(["", " origin", " >log", " $X", " &"])
)
def test_no_row_of_words_in_front_hides_what_is_forbidden(front, tail):
    script = " ".join([*front, "git push"]) + tail
    assert isinstance(verdict_of(script, "forbidden"), Refuse)
    allowed = verdict_of(script, "allow")
    if front or tail in (" >log", " $X", " &"):
        assert not (isinstance(allowed, Run) and not allowed.sandboxed)


@given(st.lists(st.text(max_size=12), max_size=8))
def test_any_words_are_unwrapped_without_an_error_and_within_bounds(words):
    given_words = tuple(ShellWord(word) for word in words)
    assert len(list(unwrap_layers(given_words))) <= MAX_LAYERS
    unwrap_command(given_words)
    assert isinstance(named_commands(words), tuple)


@pytest.mark.parametrize(
    "script",
    ["time " * 9_000 + "x", "sudo -x " * 4_000 + "x", "env A=b " * 4_000, "a b; " * 20_000],
)
def test_no_row_of_words_makes_the_search_long(script):
    started = time.process_time()
    named_commands(("bash", "-c", script))
    assert time.process_time() - started < 3
