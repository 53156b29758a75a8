"""What a command is shown as: reading, listing, searching, or unknown. For display only.

Shapes and tags are those of Codex's `parsed_cmd`. The text in them is a model's: whoever shows it
cleans it.
"""

import msgspec

from .base import Tagged


class ReadFile(Tagged, tag="read"):
    cmd: str
    name: str  # short, for a line on the screen
    path: str  # as the command names it, below the folder it changed to


class ListFiles(Tagged):
    cmd: str
    path: str | None = None  # short


class Search(Tagged):
    cmd: str
    query: str | None = None
    path: str | None = None  # short


class Unknown(Tagged):
    cmd: str


ParsedCommand = ReadFile | ListFiles | Search | Unknown
encode_parsed_commands = msgspec.json.Encoder().encode
