"""Resolves `[permissions.NAME]` profiles into policies with absolute paths. I/O: path lookups only.

Each entry of a profile is enforced, or refused or warned about with the reason; none is dropped
silently. Paths without an entry are denied.
"""

import os
import re
from collections.abc import Iterator, Sequence
from glob import escape
from pathlib import Path

import msgspec

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.base.path_rules import (
    OWN_TREES,
    PRIVATE_TREES,
    access_at,
    compile_glob,
    glob_base,
    has_glob_signs,
    is_within,
    make_rules,
)
from swarm.mailbox.protocol.values.base import Value
from swarm.mailbox.protocol.values.limits import (
    Access,
    DangerFullAccess,
    ProfilePolicy,
    ReadOnly,
    SandboxPolicy,
    WorkspaceWrite,
)

from ..config.layers.merge import Layer, as_table, is_table, merge_tables
from ..config.schema import Access as Word
from ..config.schema import NetworkTable, PermissionProfile, Toml
from ..config.validation_words import explain_conversion

# Folders that system programs need to start. Source: Codex; /proc is an addition.
_MINIMAL = (
    "/bin", "/sbin", "/usr", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store",
    "/run/current-system/sw", "/proc",
)  # fmt: skip
_DANGER = (":danger-full-access", ":danger-no-sandbox")
BUILT_IN_PROFILES: dict[str, Toml] = {
    ":read-only": {"filesystem": {":root": "read", ":tmpdir": "write"}},
    ":workspace": {
        "filesystem": {":root": "read", ":tmpdir": "write", ":project_roots": {".": "write"}}
    },
}
_ROOTS = (":project_roots", ":workspace_roots")
_TMP = (":tmpdir", ":slash_tmp")
_DEPTH = "glob_scan_max_depth"
_MAX_EXTENDS = 16
_DEVICE_SETTINGS = "/sys"  # root could write there without any capability


class ProfileContext(Value):
    """The folders that a profile is resolved against."""

    cwd: str
    roots: tuple[str, ...] = ()  # in addition to `cwd`: --add-dir
    home: str = ""


class ResolvedProfile(Value):
    """A resolved profile. `network`: the profile's own table, if it has one."""

    policy: SandboxPolicy
    network: NetworkTable | None = None
    warnings: tuple[str, ...] = ()


def chosen_profile(layers: Sequence[Layer]) -> str | None:
    """The active profile, from the highest layer that sets one or `sandbox_mode`; None: the mode.

    Raises UsageError if profiles are defined but no layer sets either.
    """
    seen = [layer for layer in layers if not layer.ignored]
    for layer in reversed(seen):
        if (name := layer.values.get("default_permissions")) is not None:
            return str(name)
        if layer.values.get("sandbox_mode") is not None:
            return None
    if any(as_table(layer.values.get("permissions")) for layer in seen):
        raise UsageError(
            "config defines `[permissions]` profiles but does not set `default_permissions`"
        )
    return None


def resolve_profile(name: str, tables: Toml, context: ProfileContext) -> ResolvedProfile:
    """The policy of a profile, by name.

    Args:
        name: A key of `tables`, or a built-in name with its colon.
        tables: `[permissions]`, merged.
        context: Working folder, other roots, home.

    Raises:
        UsageError: It does not exist, cannot be enforced, or denies the working folder.
    """
    if name in _DANGER:
        return ResolvedProfile(policy=DangerFullAccess())
    if name == ":read-only":
        return ResolvedProfile(policy=ReadOnly())
    if name == ":workspace":
        return ResolvedProfile(policy=WorkspaceWrite(writable_roots=context.roots))
    raw = _merge_bases(name, tables, ())
    place = f"permissions.{name}"
    try:
        table = msgspec.convert(raw, PermissionProfile)
    except msgspec.ValidationError as error:
        raise UsageError(f"{place}.{explain_conversion(error, PermissionProfile)}") from error
    reader = _ProfileReader(place, context, table)
    policy = reader.policy(name)
    has_network = "network" in raw
    return ResolvedProfile(
        policy=policy,
        network=table.network if has_network else None,
        warnings=tuple(f"{place}: {text}" for text in reader.warnings),
    )


def _merge_bases(name: str, tables: Toml, above: tuple[str, ...]) -> Toml:
    """The profile's table, merged over the profiles that it extends."""
    if name.startswith(":"):
        if name in _DANGER and above:
            raise UsageError(f"permissions.{above[-1]}.extends: {name} cannot be extended")
        if name not in BUILT_IN_PROFILES:
            raise UsageError(f"default_permissions refers to unknown built-in profile `{name}`")
        return BUILT_IN_PROFILES[name]
    if name in above or len(above) >= _MAX_EXTENDS:
        raise UsageError(f"permissions.{name}: extends itself ({' → '.join((*above, name))})")
    if name not in tables:
        if above:
            raise UsageError(f"permissions.{above[-1]}.extends: no profile `{name}`")
        if not tables:
            raise UsageError(
                f"default_permissions requires a `[permissions]` table: `{name}` is none of "
                f"{', '.join(BUILT_IN_PROFILES)}, and no other profile is configured"
            )
        known = ", ".join((*tables, *BUILT_IN_PROFILES))
        raise UsageError(
            f"default_permissions refers to undefined profile `{name}`; there are: {known}"
        )
    own = _canonical_keys(as_table(tables[name]))
    base = own.get("extends")
    if not isinstance(base, str):
        return own
    return merge_tables(_merge_bases(base, tables, (*above, name)), own)


def _canonical_keys(table: Toml) -> Toml:
    """Use one spelling for synonyms, so that an extending profile replaces the right entry."""
    files: Toml = {}
    for key, value in as_table(table.get("filesystem")).items():
        word = _ROOTS[0] if key in _ROOTS else key
        nested = is_table(value) or word == _DEPTH
        files[word] = value if nested or word != _ROOTS[0] else {".": value}
    return {**table, "filesystem": files} if files else table


class _ProfileReader:
    """Reads one profile's tables; `warnings` are for people."""

    def __init__(self, place: str, context: ProfileContext, table: PermissionProfile) -> None:
        self._place, self._context, self._table = place, context, table
        self._globs: list[str] = []
        self.warnings: list[str] = []

    def policy(self, name: str) -> ProfilePolicy:
        depth = self._table.filesystem.get(_DEPTH)
        if depth is not None and (not isinstance(depth, int) or depth < 1):
            raise UsageError(f"{self._place}.filesystem: {_DEPTH} must be at least 1")
        workspace = self._workspace()
        entries = list(self._entries(workspace))
        tmp: dict[str, Access] = {
            rule.path: rule.access for rule in make_rules(entries) if rule.path in ("/", "/tmp")
        }
        rules = make_rules(entry for entry in entries if entry[0] not in PRIVATE_TREES)
        cwd = os.path.realpath(self._context.cwd)
        if access_at(rules, cwd) == "deny":
            raise UsageError(
                f"{self._place}: commands could not read the working folder {cwd}; add "
                '":minimal" = "read" and ":project_roots" = "write" (or "read") to its filesystem'
            )
        if depth is None and any("**" in glob for glob in self._globs):
            self.warnings.append(
                f"`**` without {_DEPTH}: the whole tree is searched before each command"
            )
        if access_at(rules, "/usr") == "deny":
            self.warnings.append('without ":minimal" = "read" hardly any program can start')
        return ProfilePolicy(
            name=name,
            rules=rules,
            deny_globs=tuple(dict.fromkeys(self._globs)),
            glob_depth=depth,
            tmp=tmp.get("/tmp", tmp.get("/", "deny")),
            workspace=workspace,
        )

    def _workspace(self) -> tuple[str, ...]:
        wanted = [path for path, counts in self._table.workspace_roots.items() if counts]
        more = [self._absolute(path) for path in wanted]
        roots = (self._context.cwd, *self._context.roots, *more)
        return tuple(dict.fromkeys(os.path.realpath(root) for root in roots))

    def _entries(self, workspace: tuple[str, ...]) -> Iterator[tuple[str, Access]]:
        for key, value in self._table.filesystem.items():
            if key == _DEPTH:
                continue
            if isinstance(value, int):
                raise UsageError(f"{self._place}.filesystem: `{key}` needs read, write or deny")
            inner: dict[str, Word] = value if isinstance(value, dict) else {".": value}
            if has_glob_signs(key) or key.endswith("/**"):
                yield from self._patterned(self._absolute(key), inner)
                continue
            special = key.startswith(":")
            bases = self._special(key, workspace, inner) if special else (self._absolute(key),)
            for base in bases:
                for step, word in inner.items():
                    yield from self._at(base, step, "deny" if word == "none" else word)

    def _patterned(self, path: str, inner: dict[str, Word]) -> Iterator[tuple[str, Access]]:
        if list(inner) != ["."]:
            raise UsageError(f"filesystem path `{path}` does not support nested entries")
        access: Access = "deny" if inner["."] == "none" else inner["."]
        if path.endswith("/**") and access != "write" and not has_glob_signs(path[:-3]):
            yield from self._exact(path[:-3] or "/", access)
        else:
            self._glob(path, access)

    def _special(
        self, key: str, workspace: tuple[str, ...], inner: dict[str, Word]
    ) -> tuple[str, ...]:
        if key not in (*_ROOTS, *_TMP, ":root", ":minimal"):
            self.warnings.append(f"unknown special path `{key}` is ignored")
            return ()
        if key not in _ROOTS and list(inner) != ["."]:
            raise UsageError(f"filesystem path `{key}` does not support nested entries")
        if key == ":minimal":
            if inner["."] == "write":
                raise UsageError("filesystem path `:minimal` only supports `read` access")
            return _MINIMAL
        return workspace if key in _ROOTS else ("/tmp",) if key in _TMP else ("/",)

    def _absolute(self, path: str) -> str:
        if path == "~" or path.startswith("~/"):
            path = (self._context.home or str(Path.home())) + path[1:]
        if not path.startswith("/"):
            raise UsageError(
                f"filesystem path `{path}` must be absolute, use `~/...`, or start with `:`"
            )
        if ".." in path.split("/"):
            raise UsageError(f"filesystem path `{path}` must not hold `..`")
        return os.path.normpath(path).replace("//", "/")

    def _at(self, base: str, step: str, access: Access) -> Iterator[tuple[str, Access]]:
        """The rules for one entry: at the link target, and for "deny" also at the path itself."""
        if (
            base
            and step != "."
            and (step.startswith("/") or {".", "..", ""} & set(step.split("/")))
        ):
            raise UsageError(
                f"filesystem subpath `{step}` must be a descendant path without `.` or `..` "
                "components"
            )
        if step.endswith("/**") and access != "write" and not has_glob_signs(step[:-3]):
            step = step[:-3]
        if has_glob_signs(step):
            self._glob(f"{escape(base).rstrip('/')}/{step}", access)
        else:
            path = base if step == "." else f"{base.rstrip('/')}/{step}"
            yield from self._exact(path, access)

    def _glob(self, path: str, access: Access) -> None:
        if access != "deny":
            raise UsageError(
                f"filesystem glob path `{path}` only supports `deny` access; use an exact path or "
                "trailing `/**` for `read` subtree access"
            )
        try:
            compile_glob(path)
        except re.error as error:
            raise UsageError(f"filesystem glob path `{path}`: {error}") from error
        fixed = glob_base(path)
        if fixed == "/":
            raise UsageError(
                f"filesystem glob path `{path}` would search the whole machine; begin it with a "
                "folder"
            )
        below = path.split("/")[fixed.count("/") + 1 :]
        self._globs.append("/".join((escape(os.path.realpath(fixed)), *below)))

    def _exact(self, path: str, access: Access) -> Iterator[tuple[str, Access]]:
        real = os.path.realpath(path)
        own = any(is_within(path, tree) for tree in OWN_TREES) or path in PRIVATE_TREES[1:]
        if own and path not in _MINIMAL:
            self.warnings.append(f"`{path}`: a sandbox has its own; no rule about it counts")
            return
        if access == "write" and is_within(path, _DEVICE_SETTINGS):
            self.warnings.append(f"`{path}` is the kernel's: the rule lets commands read it alone")
            access = "read"
        if not os.path.lexists(path) and path not in _MINIMAL and access != "deny":
            self.warnings.append(f"`{path}` does not exist; nothing is granted there until it does")
        yield real, access
        if access == "deny" and real != path:
            yield path, access
