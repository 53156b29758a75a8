r"""Parses the text of a patch into hunks; any other text raises PatchSyntaxError. Pure.

Source: Codex's apply_patch envelope. Lenient as there: padding around headers, a heredoc around the
whole patch, a first chunk without `@@`, a bare empty line for an empty context line. Beyond it, as
in a unified diff: `\ No newline at end of file` after the last line that the file is to have.
"""

from swarm.mailbox.base.errors import SwarmError
from swarm.mailbox.protocol.values.base import Tagged, Value

BEGIN = "*** Begin Patch"
END = "*** End Patch"
ADD = "*** Add File: "
DELETE = "*** Delete File: "
UPDATE = "*** Update File: "
MOVE = "*** Move to: "
END_OF_FILE = "*** End of File"
NO_NEWLINE = "\\ No newline at end of file"
HEREDOC_STARTS = ("<<EOF", "<<'EOF'", '<<"EOF"')
VALID_HEADERS = "'*** Add File: {path}', '*** Delete File: {path}', '*** Update File: {path}'"


class PatchSyntaxError(SwarmError):
    """The text is not a patch. `line` is None when the envelope itself is wrong."""

    def __init__(self, message: str, *, line: int | None = None) -> None:
        super().__init__(message)
        self.message, self.line = message, line

    def for_terminal(self) -> str:
        """The message that the standalone command prints."""
        if self.line is None:
            return f"Invalid patch: {self.message}"
        return f"Invalid patch hunk on line {self.line}: {self.message}"

    def for_model(self) -> str:
        """The message inside a tool's output."""
        if self.line is None:
            return f"invalid patch: {self.message}"
        return f"invalid hunk at line {self.line}, {self.message}"


class Chunk(Value):
    """One place in a file. Each line keeps its first character: ' ', '-' or '+'."""

    lines: tuple[str, ...]
    context: str | None = None  # the text after `@@ `
    end_of_file: bool = False
    no_newline: bool = False  # the file is to end without one, if this chunk reaches its end

    @property
    def old_lines(self) -> list[str]:
        """What the file must contain."""
        return [line[1:] for line in self.lines if line[0] != "+"]


class AddFile(Tagged):
    path: str
    content: str


class DeleteFile(Tagged):
    path: str


class UpdateFile(Tagged):
    path: str
    chunks: tuple[Chunk, ...]  # never empty
    move_path: str | None = None


Hunk = AddFile | DeleteFile | UpdateFile


class Patch(Value):
    hunks: tuple[Hunk, ...]


def parse_patch(text: str) -> Patch:
    """Read a whole patch.

    Raises:
        PatchSyntaxError: with the line number counted from `*** Begin Patch` as line 1.
    """
    given = text.strip().split("\n")
    plain = [line.removesuffix("\r") for line in given]
    lines = _inside_envelope(plain)
    if len(lines) < len(plain):  # a heredoc was around it
        given = given[1:-1]
    if given[0].endswith("\r"):  # the whole patch has such line ends: they are not the files' own
        given = lines
    hunks: list[Hunk] = []
    at = 1
    while at < len(lines) - 1:
        hunk, at = _parse_hunk(lines[:-1], given[:-1], at)
        hunks.append(hunk)
    return Patch(hunks=tuple(hunks))


def render_add(path: str, content: str) -> str:
    """The hunk that makes a file with exactly this content."""
    *lines, last = content.split("\n")
    ended = "".join(f"+{line}\n" for line in lines)
    return f"{ADD}{path}\n{ended}" + (f"+{last}\n{NO_NEWLINE}\n" if last else "")


def _inside_envelope(lines: list[str]) -> list[str]:
    fault = _envelope_fault(lines)
    if fault is None:
        return lines
    wrapped = len(lines) >= 4 and lines[0] in HEREDOC_STARTS and lines[-1].endswith("EOF")
    if wrapped:
        lines = lines[1:-1]
        fault = _envelope_fault(lines)
    if fault is not None:
        raise PatchSyntaxError(fault)
    return lines


def _envelope_fault(lines: list[str]) -> str | None:
    if lines[0].strip() != BEGIN:
        return f"The first line of the patch must be '{BEGIN}'"
    if len(lines) < 2 or lines[-1].strip() != END:
        return f"The last line of the patch must be '{END}'"
    return None


def _parse_hunk(lines: list[str], given: list[str], at: int) -> tuple[Hunk, int]:
    """Parse the hunk that starts at index `at`; return it and the index after it.

    `given`: the lines with the carriage returns that a new file is to have.
    """
    header = lines[at].strip()
    if header.startswith(ADD):
        end = at + 1
        while end < len(lines) and lines[end].startswith("+"):
            end += 1
        content = "".join(line[1:] + "\n" for line in given[at + 1 : end])
        if end < len(lines) and lines[end] == NO_NEWLINE:
            content, end = content.removesuffix("\n"), end + 1
        return AddFile(path=header.removeprefix(ADD), content=content), end
    if header.startswith(DELETE):
        return DeleteFile(path=header.removeprefix(DELETE)), at + 1
    if header.startswith(UPDATE):
        return _parse_update(lines, at, header.removeprefix(UPDATE))
    raise PatchSyntaxError(
        f"'{header}' is not a valid hunk header. Valid hunk headers: {VALID_HEADERS}", line=at + 1
    )


def _parse_update(lines: list[str], header_at: int, path: str) -> tuple[UpdateFile, int]:
    at = header_at + 1
    move_path = None
    if at < len(lines) and lines[at].startswith(MOVE):
        move_path = lines[at].removeprefix(MOVE)
        at += 1
    chunks: list[Chunk] = []
    while at < len(lines) and not lines[at].startswith("*"):
        if not lines[at].strip():
            at += 1
            continue
        chunk, at = _parse_chunk(lines, at, is_first=not chunks)
        chunks.append(chunk)
    if not chunks:
        raise PatchSyntaxError(f"Update file hunk for path '{path}' is empty", line=header_at + 1)
    return UpdateFile(path=path, chunks=tuple(chunks), move_path=move_path), at


def _parse_chunk(lines: list[str], start: int, *, is_first: bool) -> tuple[Chunk, int]:
    context, at = None, start
    if lines[start] == "@@" or lines[start].startswith("@@ "):
        context = lines[start][3:] if len(lines[start]) > 2 else None
        at += 1
    elif not is_first:
        raise PatchSyntaxError(
            f"Expected update hunk to start with a @@ context marker, got: '{lines[start]}'",
            line=start + 1,
        )
    body_start, end_of_file, no_newline = at, False, False
    body: list[str] = []
    while at < len(lines):
        line = lines[at]
        if line == END_OF_FILE:
            end_of_file = bool(body)
            at += end_of_file
            break
        if line == NO_NEWLINE and body:
            no_newline = body[-1][0] != "-"
            at += 1
            continue
        if line and line[0] not in " +-":
            break
        body.append(line or " ")
        at += 1
    if not body:
        raise _no_lines(lines, body_start, started_at=start)
    chunk = Chunk(
        lines=tuple(body), context=context, end_of_file=end_of_file, no_newline=no_newline
    )
    return chunk, at


def _no_lines(lines: list[str], at: int, *, started_at: int) -> PatchSyntaxError:
    line = started_at + 2  # Codex names the line after the chunk's first
    if at >= len(lines) or lines[at] == END_OF_FILE:
        return PatchSyntaxError("Update hunk does not contain any lines", line=line)
    return PatchSyntaxError(
        f"Unexpected line found in update hunk: '{lines[at]}'. Every line should start with "
        "' ' (context line), '+' (added line), or '-' (removed line)",
        line=line,
    )
