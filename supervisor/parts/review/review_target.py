"""Finds what is to be reviewed in the repository and writes the prompt for the reviewer.

A target that does not exist is reported before anything starts. git runs in the read-only sandbox,
since the repository's own configuration names programs that git would run.
"""

import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.protocol.review import ReviewTarget
from swarm.mailbox.protocol.values.base import Value

RunScript = Callable[[str], str]  # a shell script → its output
_MAX_NAME_CHARS, _MOST_FAULT_CHARS = 500, 700
_EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"  # of git
_SYNTAX_CHECK = Path(__file__).with_name("syntax_check.py")
_HEAD = """\
export GIT_OPTIONAL_LOCKS=0 LC_ALL=C
g() { git -c core.fsmonitor=false -c core.hooksPath=/dev/null --no-pager "$@"; }
command -v git >/dev/null || { echo 'no-git x'; exit 0; }
root=$(g rev-parse --show-toplevel 2>&1) || { echo "no-root $(echo "$root" | tail -n 1)"; exit 0; }
echo "root $root"
"""


class ReviewTargetOptions(Value):
    """The command-line options; at most one of the three targets, none for uncommitted changes."""

    uncommitted: bool = False
    base: str | None = None
    commit: str | None = None
    words: str = ""  # the person's text: instead of a target, or in addition to one


class FoundReviewTarget(Value):
    """`kind`: uncommitted, base, commit, custom. `hint` is for people."""

    kind: ReviewTarget
    hint: str
    prompt: str
    broken: tuple[str, ...] = ()  # files that do not parse any more: `path: why`


def find_target(options: ReviewTargetOptions, look: RunScript) -> FoundReviewTarget:
    """Look the target up.

    Raises UsageError: two targets at once, no repository, an unknown target, or nothing to review.
    """
    chosen = [options.uncommitted, options.base is not None, options.commit is not None]
    if sum(chosen) > 1:
        raise UsageError("give one of --uncommitted, --base and --commit")
    text = options.words.strip()
    if not any(chosen) and text:
        return FoundReviewTarget(kind="custom", hint=" ".join(text.split())[:80], prompt=text)
    if options.base is not None:
        target = _base(_name(options.base, "--base"), look)
    elif options.commit is not None:
        target = _commit(_name(options.commit, "--commit"), look)
    else:
        target = _uncommitted(look)
    prompt = with_broken_files(target.prompt, target.broken)
    if text:
        prompt = f"{prompt}\n\nThe person who asked adds:\n{text}"
    return msgspec.structs.replace(target, prompt=prompt)


def _name(name: str, option: str) -> str:
    """Check that git cannot take the name for an option."""
    if not name.strip() or name.startswith("-") or len(name) > _MAX_NAME_CHARS or "\0" in name:
        raise UsageError(f"{option}: {name[:80]!r} is not a name of a branch or commit")
    return name


def _uncommitted(look: RunScript) -> FoundReviewTarget:
    found, broken = _look(
        look,
        'g status --porcelain | head -c 1 | grep -q . && echo "changes x"\n'
        f"old=$(g rev-parse --verify --quiet HEAD || echo {_EMPTY_TREE})\n{_check('$old')}",
    )
    if "changes" not in found:
        raise UsageError("nothing to review: there are no changes that are not committed")
    return FoundReviewTarget(
        kind="uncommitted",
        hint="uncommitted changes",
        broken=broken,
        prompt=(
            "Review what is not committed yet in this repository: what is staged, what is not, and "
            "new files that git does not know. `git status --porcelain`, `git diff HEAD` and the "
            "new files themselves show it. List findings in the order of their weight."
        ),
    )


def _base(branch: str, look: RunScript) -> FoundReviewTarget:
    word = shlex.quote(f"{branch}^{{commit}}")
    found, broken = _look(
        look,
        f"base=$(g rev-parse --verify --quiet --end-of-options {word}) || exit 0\n"
        'echo "base $base"\n'
        'fork=$(g merge-base HEAD "$base" 2>/dev/null) || exit 0\n'
        'echo "fork $fork"\n'
        'g diff --no-ext-diff --no-textconv --quiet "$fork" || echo "changes x"\n'
        f"{_check('$fork')}",
    )
    if "base" not in found:
        raise UsageError(f"--base: there is no branch or commit {branch!r} here")
    if "fork" not in found:
        raise UsageError(f"--base: nothing here has an ancestor in common with {branch!r}")
    if "changes" not in found:
        raise UsageError(f"nothing to review: there are no changes against {branch!r}")
    fork = found["fork"]
    return FoundReviewTarget(
        kind="base",
        hint=f"changes against {branch}",
        broken=broken,
        prompt=(
            f"Review the changes of this working tree against the branch {branch!r}. They began at "
            f"its commit {fork}: `git diff {fork}` shows all that would be merged. List findings "
            "in the order of their weight."
        ),
    )


def _commit(name: str, look: RunScript) -> FoundReviewTarget:
    word = shlex.quote(f"{name}^{{commit}}")
    found, broken = _look(
        look,
        f"sha=$(g rev-parse --verify --quiet --end-of-options {word}) || exit 0\n"
        'echo "sha $sha"\n'
        'echo "title $(g log -1 --format=%s "$sha" | head -c 200)"\n'
        'g show --first-parent -m --no-ext-diff --no-textconv --format= --name-only "$sha"'
        ' | head -c 1 | grep -q . && echo "changes x"\n'
        f'old=$(g rev-parse --verify --quiet "$sha^1" || echo {_EMPTY_TREE})\n'
        f"{_check('$old', '$sha')}",
    )
    if "sha" not in found:
        raise UsageError(f"--commit: there is no commit {name!r} here")
    if "changes" not in found:
        raise UsageError(f"nothing to review: commit {name!r} changes no file")
    sha, title = found["sha"], found.get("title", "")
    return FoundReviewTarget(
        kind="commit",
        hint=f"commit {sha[:9]}: {title}".rstrip(": "),
        broken=broken,
        prompt=(
            f"Review the changes that commit {sha} makes ({title!r}): `git show {sha}` shows them. "
            "List findings in the order of their weight."
        ),
    )


def with_broken_files(prompt: str, broken: Sequence[str]) -> str:
    """The prompt, with what is known of files that do not parse."""
    if not broken:
        return prompt
    listed = "\n".join(f"- {one}" for one in broken)
    return f"{prompt}\n\nA check of the syntax has found that these do not parse:\n{listed}"


def _check(*commits: str) -> str:
    """A line of a script that tells which of the files changed since the first commit are broken.

    A check that fails says nothing: the review is not stopped by it.
    """
    words = shlex.join((sys.executable, "-I", "-S", str(_SYNTAX_CHECK)))
    named = " ".join(f'"{commit}"' for commit in commits)
    return f"{words} {named} 2>/dev/null || :\n"


def _look(look: RunScript, script: str) -> tuple[dict[str, str], tuple[str, ...]]:
    """Run `_HEAD` and script; return the other `key value` lines, and those of broken files.

    Raises UsageError without repository.
    """
    lines = look(f"{_HEAD}{script}exit 0\n").splitlines()
    found: dict[str, str] = {}
    broken: list[str] = []
    for line in lines:
        key, _, value = line.partition(" ")
        if key == "broken":
            broken.append(value[:_MOST_FAULT_CHARS])
        else:
            found.setdefault(key, value)
    if "no-git" in found:
        raise UsageError("a review needs git, which is not installed here")
    if "no-root" in found or "root" not in found:
        why = found.get("no-root", "")
        raise UsageError(f"there is no git repository here to review ({why[:300]})")
    return found, tuple(f"{found['root']}/{one}" for one in broken)
