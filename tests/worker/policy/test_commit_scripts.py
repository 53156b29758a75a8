"""Scripts that record work and have their data in them: what is read, and that shells agree."""

import shutil
import subprocess

import pytest

from swarm.mailbox.protocol.values.limits import Limits, WorkspaceWrite
from swarm.worker.policy.command_facts import AgentStanding, gather_facts
from swarm.worker.policy.commit_commands import find_recording_folder
from swarm.worker.policy.commit_notices import commit_notice
from swarm.worker.policy.commit_scripts import recording_commands

RECORDED = [
    "git commit -m y 2>&1 | tail -1",
    "git commit -q -m y >/dev/null 2>&1; git log -1 2>/dev/null",
    'git commit -m "$(cat <<\'EOF\'\nSubject (x)\n\nIt\'s "q" $(no) `x` \\ } EO\n\nEOF\n)"',
    'git commit -m "a $(cat <<"EOF"\nSubject\nEOF\n) b" --allow-empty && git log -1',
    "git commit -m \"$( cat <<-'EOF'\n\tSubject\n\tmore\n\tEOF\n)\"",
    'git commit -m "$(cat <<EOF\nplain words, it\'s (all) data; rm -rf /\nEOF\n)"',
    "git commit -q -F - <<'EOF'\nSubject $(no)\nEOF",
    "git commit -q -F- <<EOF\nSubject; it's\nEOF\n",
    "git add -A && git commit -F - <<-'EOF' | tail -3\n\tSubject\n\tEOF\ngit status",
    "printf 'x' > f && git add f && git commit -m addf",
    "printf '%s\\n' a b>>'f g'; git add 'f g'",
    "cat > g <<'EOF'\nhello\nEOF\ngit add g && git commit -qm 'add g' && git log | head -3",
    "git apply < f && git commit -m 'fix #12' -m \"more\nlines\"",
    "git commit -m v1.0 -m 2 && git log -n 2 | head -n 1",
    "# Stage, then commit: all of it\ngit add -A\n  # now #2\ngit commit -m x\n",
    "set -eu\ngit add a && git commit -m x",
]
NOT_RECORDED = [
    # what a shell would expand or run
    "git commit -F - <<EOF\n$(touch x)\nEOF", "git commit -F - <<EOF\n`touch x`\nEOF",
    "git commit -F - <<EOF\na\\\nEOF\ntouch x\nEOF", "git commit -F - <<E\"O\"F\nx\nEOF",
    "git commit -m \"$(cat <<EOF\n$(touch x)\nEOF\n)\"", "git commit -m \"$(cat f)\"",
    "git commit -m \"$(cat <<'EOF'\na\nEOF\ntouch x)\"",
    "git commit -m \"$(cat <<'EOF' | sh\na\nEOF\n)\"",
    "git commit -m \"$(cat <<'EOF'; touch x\na\nEOF\n)\"",
    "git commit -m \"$(cat f <<'EOF'\na\nEOF\n)\"", "git commit -m $(cat <<'EOF'\na\nEOF\n)",
    "git commit -m \"$(cat <<'EOF'\na\nEOF)\"; touch x; \"\nEOF\n)\"",
    "git commit -m \"$(cat <<'EOF'\na\nEOF )\"; touch x; \"\nEOF\n)\"",
    "git commit -m \"$(cat <<'EOF'\na\n\tEOF\nEOF\n)\"",
    "git commit -m \"`cat <<'EOF'\na\nEOF\n`\"", "git commit -m \"$x\"", "git commit -m x\\\ny",
    # another program, or another form
    "X=1 git commit -m x", "git commit -m x & touch x", "git add . &>f touch x",
    "git commit -m x &>f", "git commit -m x > >(sh)", "cat <(ls) | git apply", "git add . <<<x",
    "git add a # b", "# $(touch x)\ngit add a", "# a; touch x\ngit add a", "# it's\ngit add a'",
    "# a\\\ngit add a", "git commit -F - <<'EOF' # b\nx\nEOF",
    "(git add a)", "{ git add a; }", "! git add a", "if true; then git add .; fi",
    "git add *", "git commit -m $'x'", "f() { sh; }; git add .", "git add . \\\n; sh",
    # files that are none of the work's, and descriptors
    "git commit -m x > .git/HEAD", "echo a > a/.GIT/refs && git add a", "echo a >../f && git add a",
    "echo a >~/.profile && git add a", "echo a >/dev/tcp/127.0.0.1/80 && git add a",
    "echo a >//dev/x && git add a", "echo a >f* && git add a", "echo a >f'x' && git add a",
    "echo a >$x && git add a", "git add a 3>f", "git add a >&f", "git add a >|f", "git add a <>f",
    "git add a 2>&-", "git add a >", "git add a <",
    # heredocs whose end or begin is in doubt
    "git commit -F - <<'EOF'\na", "git commit -F - <<'A' <<'B'\na\nA\nb\nB",
    "git commit -F - <<'EOF' -m 'a\nb'\nx\nEOF", "git commit -F - <<'EOF' -m \"a\nb\"\nx\nEOF",
    "git commit -F - 3<<'EOF'\nx\nEOF", "git commit -F - <<''\nx\n\n",
    "git commit -F - <<'EOF'\nx\nEOFx\nEOF", "git commit -F - <<\\EOF\nx\nEOF",
]  # fmt: skip
SHELLS = [shell for name in ("bash", "sh", "zsh") if (shell := shutil.which(name))]


def call(script):
    return ("/bin/bash", "-c", script)


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("script", RECORDED)
def test_each_shell_starts_git_with_just_the_words_that_were_read(shell, script, tmp_path):
    read = recording_commands(call(script))
    assert read is not None
    (tmp_path / "f").write_text("")
    stand_in = tmp_path / "programs" / "git"
    stand_in.parent.mkdir()
    stand_in.write_text('#!/bin/sh\nprintf \'%s\\0\' "$@" end-of-call >>"$CALLS"\n')
    stand_in.chmod(0o755)
    subprocess.run(
        [shell, "-c", script], cwd=tmp_path, capture_output=True, check=False,
        env={"PATH": f"{stand_in.parent}:/usr/bin:/bin", "CALLS": str(tmp_path / "calls")},
    )  # fmt: skip
    said = (tmp_path / "calls").read_text().split("end-of-call\0")[:-1]
    calls = sorted(tuple(one.split("\0")[:-1]) for one in said)
    assert calls == sorted(words[1:] for words in read if words[0] == "git")


@pytest.mark.parametrize("script", RECORDED)
def test_what_records_and_has_its_data_in_it_may_use_the_grant(script):
    facts = gather_facts(call(script), Limits(sandbox=WorkspaceWrite()))
    words = [one.words for one in facts.commands]
    assert find_recording_folder(facts.argv, words, "/w", is_complex=facts.is_complex) == "/w"


@pytest.mark.parametrize("script", NOT_RECORDED)
def test_what_is_more_than_data_may_not(script):
    assert recording_commands(call(script)) is None
    facts = gather_facts(call(script), Limits(sandbox=WorkspaceWrite()))
    words = [one.words for one in facts.commands]
    assert find_recording_folder(facts.argv, words, "/w", is_complex=facts.is_complex) is None


@pytest.mark.parametrize(
    "script",
    [
        "git add . || sh", "sh <<'EOF'\ngit add .\nEOF", "git log | sh", "cat f | sh && git add .",
        "git commit -F - <<'EOF' | sh\ntouch x\nEOF", "bash -c 'git add .' > f",
        "make > f && git add .",
        "set -k; git add . > f", "set -- a > f; git add .", "set -o keyword > f; git add .",
        "printf -v PATH /w && git add .", "printf -vPATH /w && git add .", "./git add . > f",
        "/w/git add .", "git -c core.editor=x commit > f", "git --exec-path=/w add . > f",
        "git commit --amend > f", "git reset --hard > f", "git config user.name x > f",
        "git add . > f && git -C other add .",
    ],
)  # fmt: skip
def test_other_programs_and_other_uses_of_git_stay_out(script):
    facts = gather_facts(call(script), Limits(sandbox=WorkspaceWrite()))
    words = [one.words for one in facts.commands]
    assert find_recording_folder(facts.argv, words, "/w", is_complex=facts.is_complex) is None


DENIED = "fatal: Unable to create '/w/.git/index.lock': Read-only file system\n"


@pytest.mark.parametrize(
    ("granted", "approval", "output", "said"),
    [
        (True, "on-request", DENIED, "Work may be recorded in this repository, by a command line"),
        (False, "on-request", DENIED, "Recording work in this repository needs a yes"),
        (False, "never", DENIED, "This run may not record work"),
        (True, "on-request", DENIED.replace("Read-only file system", "Permission denied"), "Work"),
        (True, "on-request", "/etc/x: Read-only file system", ""),
        (True, "on-request", "", ""),
    ],
)
def test_a_model_reads_which_command_lines_may_commit(granted, approval, output, said):
    facts = gather_facts(
        call("make && git add ."),
        Limits(sandbox=WorkspaceWrite(), approval=approval),
        standing=AgentStanding(may_commit=granted),
    )
    notice = commit_notice(facts, output)
    assert notice.startswith(said)
    assert bool(notice) == bool(said)
