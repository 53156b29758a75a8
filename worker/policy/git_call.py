"""Parses a git command line: its folder, its verb, the verb's arguments. Pure."""

from collections.abc import Sequence

from swarm.mailbox.protocol.values.base import Value

from .shell_parser import Words, program_name

# Global options that do not change what is read or run.
_HARMLESS = frozenset(
    {"--no-pager", "--no-optional-locks", "--literal-pathspecs", "--no-replace-objects", "-P"}
    | {"--glob-pathspecs", "--noglob-pathspecs", "--icase-pathspecs"}
)
_VALUED = frozenset(
    {"-C", "-c", "--git-dir", "--work-tree", "--namespace", "--config-env", "--exec-path"}
)


class GitCall(Value):
    """`plain`: no global option makes it read another configuration or repository."""

    verb: str
    arguments: Words
    folder: str = ""  # all `-C` values joined; "" = where it is started
    plain: bool = True

    def has(self, *names: str) -> bool:
        """Whether one of these options is given, also with a value or in a cluster of letters."""
        return any(_is_option(word, names) for word in self.options)

    @property
    def options(self) -> Words:
        """The arguments before `--` that begin with a dash."""
        end = self.arguments.index("--") if "--" in self.arguments else len(self.arguments)
        return tuple(word for word in self.arguments[:end] if word.startswith("-") and word != "-")

    @property
    def operands(self) -> Words:
        """The arguments that are not options, and everything after `--`."""
        if "--" not in self.arguments:
            return tuple(word for word in self.arguments if not word.startswith("-"))
        at = self.arguments.index("--")
        before = tuple(word for word in self.arguments[:at] if not word.startswith("-"))
        return (*before, *self.arguments[at + 1 :])


def read_git_call(words: Sequence[str]) -> GitCall | None:
    """The parsed call; None if it is not git, or has no verb."""
    if not words or program_name(words[0]) != "git":
        return None
    folder, plain, at = "", True, 1
    while at < len(words) and words[at].startswith("-"):
        word = words[at]
        name, equals, _ = word.partition("=")
        if word == "-C" and at + 1 < len(words):
            step = words[at + 1]
            folder = step if step.startswith("/") or not folder else f"{folder}/{step}"
        elif word not in _HARMLESS:
            plain = False
        at += 2 if name in _VALUED and not equals else 1
    if at >= len(words):
        return None
    return GitCall(verb=words[at], arguments=tuple(words[at + 1 :]), folder=folder, plain=plain)


def _is_option(word: str, names: Sequence[str]) -> bool:
    head = word.partition("=")[0]
    for name in names:
        if name.startswith("--"):
            # Git accepts any unique prefix of a long option.
            if head.startswith("--") and len(head) > 4 and name.startswith(head):
                return True
        elif word.startswith("-") and not word.startswith("--") and name[1:] in word[1:]:
            return True
    return False
