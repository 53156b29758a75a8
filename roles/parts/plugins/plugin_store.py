"""The person's installed plugins: where they lie, and the lock file that says what they are.

Below `plugins` in the person's own configuration folder, which no sandboxed command writes:
`cache/MARKETPLACE/PLUGIN/VERSION` holds the files, `data` what plugins keep, `parts` what was read
of each content, and `lock.json` the version, origin and hash of each plugin.
"""

import contextlib
import os
from collections.abc import Callable
from pathlib import Path

import msgspec

from swarm.mailbox.base.errors import SwarmError, UsageError
from swarm.mailbox.base.private_files import make_own_folders
from swarm.mailbox.protocol.values.base import Value

from ...config.atomic_replace import locked_folder, replace_file
from ...config.file_reading import read_bounded
from .files.plugin_id import PluginId
from .files.plugin_parts import PluginParts
from .files.plugin_tree import tree_digest, tree_fingerprint
from .plugin_reading import PluginPlace, read_parts

PLUGINS_FOLDER = "plugins"
LOCK_FILE = "lock.json"
_LOCK_BYTES = 4 << 20
_PARTS_BYTES = 8 << 20
_PARTS_FORMAT = 2  # grows when plugins are read in another way


class PluginsNotWritten(SwarmError):
    """The store could not be changed; what was installed still is."""


class LockedPlugin(Value):
    """One installed plugin. `folder` is the name of the folder that holds its active version."""

    version: str
    folder: str
    digest: str
    fingerprint: str = ""
    source: str = ""  # where it came from, in words that `swarm plugin add` understands
    revision: str = ""  # of a git repository; of an archive, its hash
    marketplace_source: str = ""
    previous: str = ""  # the folder of the version before, for runs that have begun with it


class PluginLock(Value):
    """`lock.json`."""

    version: int = 1
    plugins: dict[str, LockedPlugin] = {}


class PluginStore:
    """The store in one configuration folder. Reads are cheap; nothing is created by a look."""

    def __init__(self, config_folder: Path) -> None:
        self.folder = Path(os.path.realpath(config_folder)) / PLUGINS_FOLDER

    def plugin_folder(self, plugin_id: PluginId) -> Path:
        """The folder of all versions of a plugin. Trust is kept by this name."""
        return self.folder / "cache" / plugin_id.marketplace / plugin_id.plugin

    def data_folder(self, plugin_id: PluginId) -> Path:
        """The plugin's own folder, which its servers may write."""
        return self.folder / "data" / plugin_id.marketplace / plugin_id.plugin

    def read_lock(self) -> PluginLock:
        """What is installed. Raises UsageError for a lock file that cannot be read."""
        path = self.folder / LOCK_FILE
        try:
            data = read_bounded(path, limit_bytes=_LOCK_BYTES)
        except (FileNotFoundError, NotADirectoryError):
            return PluginLock()
        try:
            return msgspec.json.decode(data, type=PluginLock)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise UsageError(
                f"{path}: it cannot be read: {error}; delete it and add the plugins again"
            ) from error

    def change_lock(self, change: Callable[[PluginLock], PluginLock]) -> None:
        """Replace the lock file, one writer at a time. Raises PluginsNotWritten, UsageError."""
        try:
            with locked_folder(self.folder):
                changed = change(self.read_lock())
                data = msgspec.json.format(msgspec.json.encode(changed))
                replace_file(self.folder / LOCK_FILE, data)
        except OSError as error:
            raise PluginsNotWritten(
                f"{self.folder / LOCK_FILE} cannot be written: {error.strerror}"
            ) from error

    def load(self, plugin_id: PluginId, locked: LockedPlugin) -> PluginParts:
        """What the plugin's active version brings, by its content as it is now.

        Files are read only if something has changed since it was installed. Raises UsageError: it
        is not there, or no plugin.
        """
        root = self.plugin_folder(plugin_id) / locked.folder
        try:
            real = os.path.realpath(root)
            if real != str(root) or not root.is_dir():
                raise UsageError(f"{root}: path does not exist or is not a directory")
            unchanged = tree_fingerprint(root) == locked.fingerprint
            digest = locked.digest if unchanged else tree_digest(root)
            known = self._known_parts(digest)
            if known is not None and (known.root, known.plugin_id) == (real, str(plugin_id)):
                return known
            place = PluginPlace(plugin_id=plugin_id, root=root, data=self.data_folder(plugin_id))
            return read_parts(place, digest=digest)
        except OSError as error:
            raise UsageError(f"{root}: it cannot be read: {error.strerror}") from error

    def keep_parts(self, parts: PluginParts) -> None:
        """Keep what was read, so that no later start parses it again. Raises OSError."""
        path = self._parts_file(parts.digest)
        make_own_folders(path.parent)
        replace_file(path, msgspec.msgpack.encode(parts))

    def forget_parts(self, digest: str) -> None:
        """Drop what was kept of a content."""
        with contextlib.suppress(OSError):
            self._parts_file(digest).unlink(missing_ok=True)

    def _known_parts(self, digest: str) -> PluginParts | None:
        try:
            data = read_bounded(self._parts_file(digest), limit_bytes=_PARTS_BYTES)
            return msgspec.msgpack.decode(data, type=PluginParts)
        except (FileNotFoundError, UsageError, msgspec.DecodeError):
            return None

    def _parts_file(self, digest: str) -> Path:
        return self.folder / "parts" / f"{digest}.{_PARTS_FORMAT}.msgpack"
