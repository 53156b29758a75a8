"""The command files of a run: of trusted projects, of the person, and of plugins."""

from collections.abc import Iterator
from pathlib import Path

from swarm.roles.config.layers.config_loader import LoadedConfig
from swarm.roles.markdown.markdown_discovery import (
    COMMAND_FOLDERS,
    OWN_COMMAND_FOLDERS,
    FoundMarkdown,
    project_markdown,
    read_markdown_folder,
)
from swarm.roles.parts.commands.command_file import FoundCommands, parse_commands
from swarm.roles.parts.plugins.files.plugin_markdown import plugin_markdown

from ...chat.slash_commands import BUILT_IN_NAMES


def find_run_commands(loaded: LoadedConfig, config_folder: Path) -> FoundCommands:
    """All commands that count here.

    The nearest folder of the project wins, then the person's. The names of a plugin's commands
    begin with its own.
    """
    files = (*_of_projects(loaded), *_of_person(config_folder), *_of_plugins(loaded))
    return parse_commands(files, taken=BUILT_IN_NAMES)


def _of_plugins(loaded: LoadedConfig) -> Iterator[FoundMarkdown]:
    for layer in loaded.layers:
        if layer.plugin is not None and not layer.ignored:
            yield from plugin_markdown(layer.plugin, "commands")


def _of_projects(loaded: LoadedConfig) -> Iterator[FoundMarkdown]:
    for layer in reversed(loaded.layers):
        if layer.files and layer.project_folder and not layer.ignored:
            yield from project_markdown(layer.project_folder, layer.files, COMMAND_FOLDERS)


def _of_person(config_folder: Path) -> Iterator[FoundMarkdown]:
    for name in OWN_COMMAND_FOLDERS:
        yield from read_markdown_folder(config_folder / name)
