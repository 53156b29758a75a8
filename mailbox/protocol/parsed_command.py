"""Parsed form of a command for display: read, list, search, or unknown.

Shapes and tags are those of Codex's `parsed_cmd`. The text comes from a model: the code that shows
it must clean it.
"""

import msgspec

from .values.base import Tagged


class ReadFile(Tagged, tag="read"):
    cmd: str
    name: str  # short, for one line on the screen
    path: str  # as the command names it, relative to the folder it changed to


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
