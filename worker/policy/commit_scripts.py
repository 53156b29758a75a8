r"""Reads a script that records work, where its data is written in it: heredocs, redirects. Pure.

A heredoc is data if its tag is quoted, or if its body has nothing that a shell expands. It may be
the input of a command (`git commit -F - <<'EOF'`) or a message (`-m "$(cat <<'EOF' … )"`). Output
may go to a file, to nothing, or with the errors to the next command. What remains without them must
be plain (`plain_commands`): no other expansion, no subshell, no assignment, and comments only as
lines of their own. Wherever two shells could read a text differently, none of it is read.
"""

import re
from collections.abc import Sequence

from .shell_parser import MAX_SCRIPT_BYTES, Words, plain_commands, shell_script

_TAG = r"(?P<quote>['\"]?)(?P<tag>[A-Za-z_][A-Za-z0-9_]*)(?P=quote)"
_HEREDOC = re.compile(rf"<<(?P<strip>-?)[ \t]*{_TAG}(?=[ \t\n;&|)])")
_CAT_HEREDOC = re.compile(rf"\$\([ \t]*cat[ \t]+<<(?P<strip>-?)[ \t]*{_TAG}[ \t]*\n")
_CAT_END = re.compile(r"[ \t\n]*\)")
_TARGET = r"(?:'(?P<single>[^'\n]+)'|\"(?P<double>[^\"$`\\\n]+)\"|(?P<bare>[A-Za-z0-9_./@%+,:=-]+))"
_END = r"(?=[ \t\n;&|]|\Z)"
_JOINED = re.compile(rf"[12]?>&[12]{_END}")  # `2>&1`
_REDIRECT = re.compile(rf"(?:[012]?>>?|0?<)[ \t]*{_TARGET}{_END}")
_COMMENT = re.compile(r"#[\w ,.:/#+@%\t-]*(?=\n)", re.ASCII)
_PLAIN_RUN = re.compile(r"""[^'"\\$`<>&#\n0-9]+""")
_EXPANDED = re.compile(r"[$`\\]")
_CLOSED_TREES = ("/dev/", "/proc/", "/sys/")


def recording_commands(argv: Sequence[str]) -> tuple[Words, ...] | None:
    """The plain commands of a shell script, its data left out; None if it has anything else."""
    script = shell_script(argv)
    if script is None or len(script) > MAX_SCRIPT_BYTES or "\0" in script:
        return None
    plain = _DataReader(script).read()
    return None if plain is None else plain_commands(plain)


class _DataReader:
    """One walk over a script; `read` gives the plain script that does the same without its data."""

    def __init__(self, script: str) -> None:
        self._script = script
        self._at = 0
        self._plain: list[str] = []
        self._pending: re.Match[str] | None = None  # a heredoc whose body begins at the next line

    def read(self) -> str | None:
        """None: something that cannot be told from data, or that is not plain text."""
        while self._at < len(self._script):
            if not self._step():
                return None
        return None if self._pending is not None else "".join(self._plain)

    def _step(self) -> bool:
        """Take the next part; False if it cannot be read."""
        sign = self._script[self._at]
        match sign:
            case "\n":
                return self._take_line_end()
            case "'":
                return self._take_until("'")
            case '"':
                return self._take_double_quoted()
            case "<" | ">" | "&" | "0" | "1" | "2":
                return self._take_redirect() or self._take_other(sign)
            case "#":
                return self._take_comment()
            case "\\" | "$" | "`":
                return False
            case _:
                found = _PLAIN_RUN.match(self._script, self._at)
                return self._copy(found.end() if found else self._at + 1)

    def _take_other(self, sign: str) -> bool:
        """`&&`, or a digit in a word. A background job, or another redirect, is not read."""
        if sign in "012":
            return self._copy(self._at + 1)
        is_and = self._script.startswith("&&", self._at) and self._script[self._at + 2 :][:1] != "&"
        return is_and and self._copy(self._at + 2)

    def _take_redirect(self) -> bool:
        begins_word = not self._plain or self._plain[-1][-1:] in (" ", "\t", "\n", ";", "|", "&")
        sign = self._script[self._at]
        if sign in "012" and not begins_word:
            return False  # a digit of a word
        if found := _HEREDOC.match(self._script, self._at):
            if self._pending is not None:
                return False
            self._pending = found
        else:
            found = _JOINED.match(self._script, self._at) or _REDIRECT.match(self._script, self._at)
            if found is None:
                return False
            paths = (text for text in found.groupdict().values() if text is not None)
            if not all(map(_may_be_target, paths)):
                return False
        if not begins_word and self._plain[-1][-1:].isdigit():
            return False  # `3>f`: another descriptor
        self._plain.append(" ")
        self._at = found.end()
        return True

    def _take_comment(self) -> bool:
        """Leave out a line that is a comment, of signs that are nothing else in any shell."""
        found = _COMMENT.match(self._script, self._at)
        is_line = not self._plain or "".join(self._plain[-2:]).rstrip(" \t")[-1:] in ("", "\n")
        if found is None or not is_line or self._pending is not None:
            return False
        self._at = found.end()
        return True

    def _take_line_end(self) -> bool:
        self._copy(self._at + 1)
        if self._pending is None:
            return True
        heredoc, self._pending = self._pending, None
        return self._body_of(heredoc) is not None

    def _take_until(self, quote: str) -> bool:
        end = self._script.find(quote, self._at + 1)
        if end < 0 or (self._pending is not None and "\n" in self._script[self._at : end]):
            return False
        return self._copy(end + 1)

    def _take_double_quoted(self) -> bool:
        """Text in double quotes; each `$(cat <<'EOF' …)` in it becomes a text in single quotes."""
        self._copy(self._at + 1)
        while self._at < len(self._script):
            sign = self._script[self._at]
            if sign == '"':
                return self._copy(self._at + 1)
            if sign == "$":
                if not self._take_message():
                    return False
            elif sign in "`\\" or (sign == "\n" and self._pending is not None):
                return False
            else:
                self._copy(self._at + 1)
        return False

    def _take_message(self) -> bool:
        opened = _CAT_HEREDOC.match(self._script, self._at)
        if opened is None or self._pending is not None:
            return False
        self._at = opened.end()
        body = self._body_of(opened)
        closed = None if body is None else _CAT_END.match(self._script, self._at)
        if body is None or closed is None:
            return False
        self._at = closed.end()
        quoted = body.rstrip("\n").replace("'", "'\"'\"'")
        self._plain.append(f"\"'{quoted}'\"")
        return True

    def _body_of(self, heredoc: re.Match[str]) -> str | None:
        """The body that begins here, and go to the line behind it; None if it may be no data.

        No other line may begin with the tag: some shells end the heredoc there.
        """
        tag, lines = heredoc["tag"], list[str]()
        while self._at < len(self._script):
            end = self._script.find("\n", self._at)
            line = self._script[self._at : end if end >= 0 else len(self._script)]
            self._at = len(self._script) if end < 0 else end + 1
            shown = line.lstrip("\t") if heredoc["strip"] else line
            if shown == tag:
                body = "".join(f"{one}\n" for one in lines)
                is_data = bool(heredoc["quote"]) or not _EXPANDED.search(body)
                return body if is_data else None
            if line.strip().startswith(tag):
                return None
            lines.append(shown)
        return None

    def _copy(self, end: int) -> bool:
        self._plain.append(self._script[self._at : end])
        self._at = end
        return True


def _may_be_target(path: str) -> bool:
    """Whether output may go to this file: nothing of a repository's own, and no device.

    That is for the words alone: the sandbox decides, and what it opens for git is open for git.
    """
    steps = path.casefold().split("/")
    is_closed = f"{path}/".startswith(_CLOSED_TREES) or path.startswith("//") or ".." in steps
    return path == "/dev/null" or not (is_closed or ".git" in steps or steps[0].startswith("~"))
