"""The roles of agent files in a layer: a project's, a plugin's, the person's."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.protocol.values.base import Value

from ..config.layers.merge import Layer, as_table
from ..markdown.markdown_discovery import (
    AGENT_FOLDERS,
    OWN_AGENT_FOLDERS,
    FoundMarkdown,
    project_markdown,
    read_markdown_folder,
)
from ..parts.plugins.files.plugin_markdown import plugin_markdown
from ..rights.role import Role
from .agent_file import read_agent_file

_RESERVED = "guardian"  # the reviewer: what it is told is not for a project to say


class AgentFileRoles(Value):
    """The usable roles in order, and by file's name why others are not."""

    roles: tuple[Role, ...] = ()
    faults: dict[str, str] = {}


def model_aliases(layers: Iterable[Layer]) -> dict[str, str]:
    """`agents.model_aliases` of all layers that count, the highest one's words win."""
    found: dict[str, str] = {}
    for layer in layers:
        if not layer.ignored:
            table = as_table(as_table(layer.values.get("agents")).get("model_aliases"))
            found |= {word: model for word, model in table.items() if isinstance(model, str)}
    return found


def layer_agent_files(layer: Layer) -> Iterator[FoundMarkdown]:
    """The agent files of a layer: a trusted project's as they were read, a plugin's, one's own."""
    if layer.plugin is not None:
        yield from plugin_markdown(layer.plugin, "agents")
        return
    if layer.files is not None:
        if layer.project_folder:
            yield from project_markdown(layer.project_folder, layer.files, AGENT_FOLDERS)
        return
    for name in OWN_AGENT_FOLDERS if layer.source else ():
        yield from read_markdown_folder(Path(layer.source).parent / name)


def read_agent_roles(files: Iterable[FoundMarkdown], aliases: Mapping[str, str]) -> AgentFileRoles:
    """Read each file; a faulty one is left out."""
    roles: list[Role] = []
    faults: dict[str, str] = {}
    for file in files:
        name = file.name.rpartition(":")[2]
        try:
            role = read_agent_file(file, aliases)
            if role.name == _RESERVED:
                raise UsageError(f"{file.path}: the role `{_RESERVED}` is swarm's own; rename it")
        except UsageError as error:
            faults[name] = str(error)
        else:
            roles.append(role)
    return AgentFileRoles(roles=tuple(roles), faults=faults)
