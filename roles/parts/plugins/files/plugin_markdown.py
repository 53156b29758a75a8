"""The command files and agent files of a plugin that counts; their names begin with `PLUGIN:`."""

from collections.abc import Iterator
from pathlib import PurePath
from typing import Literal

from ....markdown.markdown_discovery import FoundMarkdown, read_markdown_files
from .plugin_parts import PluginParts


def plugin_markdown(
    parts: PluginParts, kind: Literal["commands", "agents"]
) -> Iterator[FoundMarkdown]:
    """Each file as it lies in the store, whose whole content was trusted; never through a link."""
    paths = parts.commands if kind == "commands" else parts.agents
    named = parts.manifest.commands if kind == "commands" else parts.manifest.agents
    folders = [f"{parts.root}/{name}" for name in named if name]
    for path in paths:
        roots = [folder for folder in folders if path.startswith(f"{folder}/")]
        root = max(roots, key=len, default=str(PurePath(path).parent))
        yield from read_markdown_files([path], root=root, prefix=parts.name)
