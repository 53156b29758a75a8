"""A plugin's id `PLUGIN@MARKETPLACE`, and the order of versions. Pure.

Source: Codex's plugin keys; versions are ordered as Semantic Versioning 2.0 says, not as text.
"""

import re

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.protocol.values.base import Value

LOCAL_MARKETPLACE = "local"  # of plugins that were added from a folder or an archive by itself
LOCAL_VERSION = "local"  # of a plugin whose manifest names none
_SEGMENT = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")
_VERSION = re.compile(r"(?!\.{1,2}\Z)[A-Za-z0-9_.+-]{1,64}\Z")
_SEMANTIC = re.compile(
    r"v?(?P<core>\d{1,9}(?:\.\d{1,9}){0,2})(?:-(?P<before>[0-9A-Za-z.-]+))?(?:\+[0-9A-Za-z.-]+)?\Z"
)

# (class, core, whether it is a release, identifiers before it, text)
VersionKey = tuple[int, tuple[int, ...], int, tuple[tuple[int, int, str], ...], str]


class PluginId(Value):
    """Both parts are plain words: letters, digits, `-` and `_`."""

    plugin: str
    marketplace: str

    def __str__(self) -> str:
        return f"{self.plugin}@{self.marketplace}"


def parse_plugin_id(text: str) -> PluginId:
    """Split at the last `@`. Raises UsageError that names the faulty part."""
    plugin, sign, marketplace = text.rpartition("@")
    if not sign or not plugin or not marketplace:
        raise UsageError(f"invalid plugin key `{text}`; expected <plugin>@<marketplace>")
    return PluginId(
        plugin=check_name(plugin, "plugin"), marketplace=check_name(marketplace, "marketplace")
    )


def check_name(text: str, what: str) -> str:
    """Return the name. Raises UsageError unless it is a plain word of at most 64 characters."""
    if not _SEGMENT.match(text):
        raise UsageError(
            f"invalid {what} name `{text}`: at most 64 letters, digits, `-` and `_` are allowed"
        )
    return text


def check_version(text: str) -> str:
    """Return a manifest's version, which names a folder. Raises UsageError."""
    if not _VERSION.match(text):
        raise UsageError(
            f"invalid version `{text}`: at most 64 letters, digits, `-`, `_`, `.` and `+`"
        )
    return text


def version_key(text: str) -> VersionKey:
    """Sorts versions: other texts, then semantic versions, then `local`.

    A version before a release (`1.0.0-rc.1`) is below the release.
    """
    if text == LOCAL_VERSION:
        return (2, (), 0, (), "")
    found = _SEMANTIC.match(text)
    if found is None:
        return (0, (), 0, (), text)
    core = tuple(map(int, found["core"].split(".")))
    before = found["before"]
    words = () if before is None else tuple(map(_identifier, before.split(".")))
    return (1, (*core, *(0,) * (3 - len(core))), int(before is None), words, text)


def _identifier(word: str) -> tuple[int, int, str]:
    """Numbers are below words."""
    return (0, int(word), "") if word.isdigit() and word.isascii() else (1, 0, word)
