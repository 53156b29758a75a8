"""What a plugin brings, as values: the part of it that runs, listings and questions need. Pure."""

from collections.abc import Iterable, Iterator

from swarm.mailbox.protocol.hooks import Hook
from swarm.mailbox.protocol.values.base import Value

from ...skills.skill_file import Skill
from .plugin_manifest import PluginManifest

BYTES_PER_TOKEN = 4


class PluginParts(Value):
    """Everything that one version of a plugin brings; it was read from exactly these bytes.

    `servers` are tables of `[mcp_servers.NAME]`. `commands` and `agents` are absolute paths of the
    files that hold them; their names begin with `PLUGIN:`.
    """

    plugin_id: str  # `PLUGIN@MARKETPLACE`
    root: str  # canonical path of the folder that holds this version
    digest: str  # of the whole folder: names, contents, executable bits
    manifest: PluginManifest
    skills: tuple[Skill, ...] = ()
    hooks: tuple[Hook, ...] = ()
    servers: dict[str, dict[str, object]] = {}
    commands: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()  # executable files, relative to `root`
    warnings: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.manifest.name

    @property
    def listed_tokens(self) -> int:
        """What its skills cost in each request, as far as their lines fit the list."""
        return sum(
            -(-len(f"- {one.name}: {one.description} (file: {one.path})") // BYTES_PER_TOKEN)
            for one in self.skills
            if one.is_listed
        )


def is_selected(own: bool | None, project: Iterable[bool | None]) -> bool:  # noqa: FBT001 - a value
    """Whether an installed plugin is used here.

    Args:
        own: What the person's own configuration says; None: nothing.
        project: What each trusted folder of the project says, the outermost first.

    A project's no always counts; its yes counts only where the person says nothing.
    """
    said = [one for one in project if one is not None]
    if False in said or own is False:
        return False
    return own is True or True in said


def changed_files(old: dict[str, str], new: dict[str, str]) -> Iterator[str]:
    """`+ name`, `- name` and `~ name` for each file that differs, sorted by name."""
    for name in sorted(old.keys() | new.keys()):
        if name not in old:
            yield f"+ {name}"
        elif name not in new:
            yield f"- {name}"
        elif old[name] != new[name]:
            yield f"~ {name}"
