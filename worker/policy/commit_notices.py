"""What a model reads when git could not write its repository: which command lines may. Pure."""

import re

from .command_facts import CommandFacts

_REFUSED = re.compile(
    r"\.git/[^\n]{0,300}: (?:Read-only file system|Permission denied|Operation not permitted)"
)
_TAKEN = (
    "a command line in which each command records work with git (add, commit, mv, rm, stash, tag, "
    "branch, switch, merge, apply, …), only reads, or is cd, echo or printf. They may be joined "
    "with `&&`, `||`, `;` and `|`, write files with `>`, and have text as a heredoc with a quoted "
    "tag, also as `-m \"$(cat <<'EOF' … )\"`; `set -e` and comments on lines of their own may "
    "stand among them. Any other program, expansion, assignment or subshell goes into a command of "
    "its own before"
)
_NEVER = "This run may not record work in the repository; say in your answer what to commit."


def commit_notice(facts: CommandFacts, output: str) -> str:
    """A sentence for a command that got no grant to commit, and failed for want of it; or ""."""
    if not _REFUSED.search(output):
        return ""
    if facts.standing.may_commit:
        return f"Work may be recorded in this repository, by {_TAKEN}."
    if facts.approval == "never":
        return _NEVER
    return f"Recording work in this repository needs a yes, which is asked for {_TAKEN}."
