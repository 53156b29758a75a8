"""The findings of a run: what is accepted, what is known already, and the search. Pure."""

import posixpath
import re
from collections import Counter
from collections.abc import Iterable

from swarm.mailbox.parts.findings.finding_messages import (
    FindingsFound,
    PublishFinding,
    RecallFindings,
)
from swarm.mailbox.protocol.values.findings import MAX_FACT_CHARS, MAX_PLACE_CHARS, Finding

from ...agents.child_plan import AgentRequestError
from ...agents.claims import covers, words_of

MAX_FINDINGS = 512  # of a run
MAX_OF_ONE_AGENT = 64
MAX_RECALLED = 20
_MAX_QUERY_WORDS = 32
_LINES = re.compile(r"[1-9][0-9]{0,6}(-[1-9][0-9]{0,6})?")


class FindingsIndex:
    """The findings of one run, by number and by their words.

    Args:
        cwd: The run's folder; files below it are named relative to it.
    """

    def __init__(self, cwd: str) -> None:
        self._cwd = cwd
        self.written: list[Finding] = []  # those that may be shown, in the order of their numbers
        self._last = 0
        self._by_text: dict[tuple[str, str, str], Finding] = {}
        self._counts: Counter[str] = Counter()

    def restore(self, findings: Iterable[Finding]) -> None:
        """Take over the findings of the run's earlier parts."""
        for finding in findings:
            self._note(finding)
            self.written.append(finding)

    def find_known(self, request: PublishFinding, folder: str) -> Finding | None:
        """The finding that says the same of the same place already."""
        file = place_of(request.file, folder, self._cwd)
        return self._by_text.get((file, request.lines.strip(), _one_line(request.fact)))

    def accept(self, author: str, folder: str, request: PublishFinding) -> Finding:
        """Return the new finding, which the caller journals; `add_written` makes it visible.

        Args:
            author: The agent's path.
            folder: Its working folder.
            request: What it publishes.

        Raises AgentRequestError, for the model: a bound or a rule of the arguments is broken.
        """
        check_finding(request)
        if self._last >= MAX_FINDINGS or self._counts[author] >= MAX_OF_ONE_AGENT:
            raise AgentRequestError(
                f"not published: an agent may publish {MAX_OF_ONE_AGENT} findings, all agents of "
                f"a run {MAX_FINDINGS}. Put the rest into your final answer"
            )
        finding = Finding(
            number=self._last + 1,
            author=author,
            fact=_one_line(request.fact),
            file=place_of(request.file, folder, self._cwd),
            lines=request.lines.strip(),
        )
        self._note(finding)
        return finding

    def add_written(self, finding: Finding) -> None:
        """The journal has it, in this form: others may read it."""
        self.written.append(finding)

    def search(self, request: RecallFindings) -> FindingsFound:
        """The findings with most of the query's words, newer ones first; all for no words."""
        words = words_of(request.query)[:_MAX_QUERY_WORDS]
        scored = ((_score(finding, words), finding.number, finding) for finding in self.written)
        matches = sorted(one for one in scored if one[0] or not words)
        best = [finding for _, _, finding in reversed(matches)]
        return FindingsFound(
            findings=tuple(best[:MAX_RECALLED]), more=max(0, len(best) - MAX_RECALLED)
        )

    def _note(self, finding: Finding) -> None:
        self._last = max(self._last, finding.number)
        self._counts[finding.author] += 1
        self._by_text.setdefault((finding.file, finding.lines, finding.fact), finding)


def check_finding(request: PublishFinding) -> None:
    """Raises AgentRequestError that says what is wrong."""
    fact = _one_line(request.fact)
    if not fact:
        raise AgentRequestError("fact must not be empty: write what you found out")
    if len(fact) > MAX_FACT_CHARS:
        raise AgentRequestError(
            f"fact has {len(fact)} characters, {MAX_FACT_CHARS} are the limit: say one thing, and "
            "name the file where more is"
        )
    if len(request.file) > MAX_PLACE_CHARS or not request.file.isprintable():
        raise AgentRequestError(
            f"file must be one path of at most {MAX_PLACE_CHARS} printable characters"
        )
    lines = request.lines.strip()
    if lines and not (request.file.strip() and _LINES.fullmatch(lines)):
        raise AgentRequestError("lines must be a number or a range as `12-40`, and need a file")


def place_of(file: str, folder: str, cwd: str) -> str:
    """The file as all agents may name it: relative to the run's folder if inside, else absolute.

    By its text alone: nothing is looked up on the disk.
    """
    if not file.strip():
        return ""
    path = posixpath.normpath(posixpath.join(folder, file.strip()))
    return posixpath.relpath(path, cwd) if covers(cwd, path) else path


def _one_line(text: str) -> str:
    shown = "".join(char if char.isprintable() else " " for char in text)
    return " ".join(shown.split())


def _score(finding: Finding, words: list[str]) -> int:
    text = f"{finding.author} {finding.place} {finding.fact}".casefold()
    return sum(word in text for word in words)
