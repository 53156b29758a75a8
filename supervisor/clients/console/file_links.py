"""Names of files that a terminal opens at a click (OSC 8). Only files that are there become links.

A model's own links stay text: what they lead to could be hidden behind their words.
"""

import os
import re
from collections.abc import Iterable, Iterator
from typing import Literal
from urllib.parse import quote

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.segment import Segment
from rich.style import Style

FileOpener = Literal["file", "vscode", "vscode-insiders", "windsurf", "cursor", "none"]
_MOST_LOOKED_FOR = 200  # names in one text
_MOST_CHARS = 300  # of a name
_NAME = re.compile(r"[\w./@+~-]{2,}(?::\d{1,7})?(?::\d{1,5})?")


class FileLinks:
    """Links into one folder.

    Args:
        folder: Absolute; relative names are below it, and nothing outside of it becomes a link.
        opener: The scheme of the links; `none`: no links.
    """

    def __init__(self, folder: str, opener: FileOpener = "file") -> None:
        self._folder = folder
        self._opener = opener
        self._known: dict[str, bool] = {}

    def style_of(self, name: str, line: str = "") -> Style:
        """The link of a file by its name below the folder; no link if none are wanted."""
        if self._opener == "none" or not self._folder.startswith("/"):
            return Style.null()
        place = quote(os.path.join(self._folder, name), errors="replace")  # noqa: PTH118 - text
        if self._opener == "file":
            return Style(link=f"file://{place}")
        return Style(link=f"{self._opener}://file{place}{f':{line}' if line else ''}")

    def mark(self, segments: Iterable[Segment]) -> Iterator[Segment]:
        """The same text, with a link behind each name of a file that is there."""
        for segment in segments:
            if segment.control or self._opener == "none" or "." not in segment.text:
                yield segment
            else:
                yield from self._marked(segment)

    def _marked(self, segment: Segment) -> Iterator[Segment]:
        at, text = 0, segment.text
        for found in _NAME.finditer(text):
            word = found.group().rstrip(".")
            name, _, rest = word.partition(":")
            if not self._is_file(name):
                continue
            line = rest.partition(":")[0]
            end = found.start() + len(word)
            if found.start() > at:
                yield Segment(text[at : found.start()], segment.style)
            link = self.style_of(name, line)
            yield Segment(word, link if segment.style is None else segment.style + link)
            at = end
        if at < len(text):
            yield Segment(text[at:], segment.style)

    def _is_file(self, name: str) -> bool:
        if name not in self._known:
            if len(self._known) >= _MOST_LOOKED_FOR:
                return False
            self._known[name] = self._find(name)
        return self._known[name]

    def _find(self, name: str) -> bool:
        if len(name) > _MOST_CHARS or not name.strip("./~"):
            return False
        path = os.path.normpath(os.path.join(self._folder, name))  # noqa: PTH118 - text
        return path.startswith(f"{self._folder.rstrip('/')}/") and os.path.isfile(path)  # noqa: PTH113


class Linked:
    """A renderable whose names of files are links."""

    def __init__(self, shown: RenderableType, links: FileLinks) -> None:
        self._shown = shown
        self._links = links

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield from self._links.mark(console.render(self._shown, options))
