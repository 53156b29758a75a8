"""Reads a `marketplace.json`, in Codex's and in Claude's form. Pure.

An entry whose source cannot be used is left out with a warning; the rest of the file stands.
"""

import re
from collections.abc import Iterator
from typing import cast
from urllib.parse import urlsplit

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.base.written_text import read_written_object
from swarm.mailbox.protocol.values.base import Value

from .plugin_id import LOCAL_MARKETPLACE, check_name
from .plugin_manifest import inner_path, is_object, one_line

# In the order in which they are looked for; paths of entries begin at the marketplace's root.
MARKETPLACE_FILES = (
    ".agents/plugins/marketplace.json",
    ".swarm-plugin/marketplace.json",
    ".claude-plugin/marketplace.json",
)
MARKETPLACE_BYTES = 4 << 20
RESERVED_NAMES = frozenset({LOCAL_MARKETPLACE, "openai-curated", "openai-bundled"})
_MOST_PLUGINS = 1_000
_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
_SHORT = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9_][\w.-]*\Z", re.ASCII)
_SSH = re.compile(r"[A-Za-z0-9][\w.-]*@[A-Za-z0-9][\w.-]*:[\w./~-]+\Z", re.ASCII)
_REF = re.compile(r"[A-Za-z0-9_][\w./+-]{0,199}\Z", re.ASCII)
_SHA = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?\Z")
_MANIFEST_KEYS = (
    "version", "description", "author", "homepage", "license", "keywords", "skills", "commands",
    "agents", "hooks", "mcpServers",
)  # fmt: skip


class PluginSource(Value):
    """Where an entry's files are: below the marketplace's root, or in a git repository."""

    path: str = ""  # inside of the root, or of the repository; "" = all of it
    url: str = ""  # of a git repository
    ref: str = ""
    sha: str = ""  # the commit that must be fetched


class MarketplaceEntry(Value):
    """One plugin. `manifest` holds what the entry says in place of a `plugin.json`."""

    name: str
    source: PluginSource
    description: str = ""
    version: str = ""
    available: bool = True
    manifest: dict[str, object] = {}


class MarketplaceFile(Value):
    """The usable entries, in the file's order, and a line for each other one."""

    name: str
    entries: tuple[MarketplaceEntry, ...] = ()
    warnings: tuple[str, ...] = ()

    def find(self, name: str) -> MarketplaceEntry | None:
        """The first entry of this name."""
        return next((one for one in self.entries if one.name == name), None)


def read_marketplace(data: bytes, *, path: str) -> MarketplaceFile:
    """Parse one file. Raises UsageError with file and line: it, or its name, cannot be used."""
    root = read_written_object(data, path)
    name = root.get("name")
    if not isinstance(name, str):
        raise UsageError(f"{path}: `name` must be a text")
    try:
        check_name(name, "marketplace")
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from error
    plugins = root.get("plugins", [])
    if not isinstance(plugins, list):
        raise UsageError(f"{path}: `plugins` must be an array")
    metadata = root.get("metadata")
    base = metadata.get("pluginRoot") if is_object(metadata) else None
    warnings: list[str] = []
    given = cast("list[object]", plugins)
    if len(given) > _MOST_PLUGINS:
        warnings.append(f"{path}: more than {_MOST_PLUGINS} plugins; the rest is left out")
    entries = tuple(_entries(given[:_MOST_PLUGINS], str(base or ""), path, warnings))
    return MarketplaceFile(name=name, entries=entries, warnings=tuple(warnings))


def _entries(
    given: list[object], base: str, path: str, warnings: list[str]
) -> Iterator[MarketplaceEntry]:
    seen: set[str] = set()
    for number, one in enumerate(given):
        try:
            entry = _entry(one, base)
            if entry.name in seen:
                raise UsageError(f"the name {entry.name} is taken by an entry above")
        except UsageError as error:
            warnings.append(f"{path}: plugins[{number}]: {error}; left out")
            continue
        seen.add(entry.name)
        yield entry


def _entry(one: object, base: str) -> MarketplaceEntry:
    if not is_object(one):
        raise UsageError("must be an object")
    policy = one.get("policy")
    rules = policy if is_object(policy) else {}
    products = rules.get("products")
    available = rules.get("installation") != "NOT_AVAILABLE" and products != []
    manifest = {key: one[key] for key in _MANIFEST_KEYS if key in one}
    return MarketplaceEntry(
        name=check_name(str(one.get("name", "")), "plugin"),
        source=_source(one.get("source"), base),
        description=one_line(str(one.get("description") or "")),
        version=one_line(str(one.get("version") or "")),
        available=available,
        manifest=manifest,
    )


def _source(given: object, base: str) -> PluginSource:
    """Raises UsageError: the source has no known form, or leads out."""
    if isinstance(given, str):
        return PluginSource(path=_inner(given, base))
    if not is_object(given):
        raise UsageError("its source is neither a path nor an object")
    match given.get("source"):
        case "local":
            return PluginSource(path=_inner(str(given.get("path", "")), base))
        case "url" | "git-subdir" | "git":
            url = str(given.get("url", ""))
        case "github":
            url = str(given.get("repo", ""))
        case other:
            raise UsageError(f"its source {str(other)[:40]!r} is not known here")
    ref, sha = str(given.get("ref") or ""), str(given.get("sha") or "")
    path = str(given.get("path") or "")
    if sha and not _SHA.match(sha):
        raise UsageError("its sha is not a commit")
    return PluginSource(
        url=git_url(url), ref=check_ref(ref), sha=sha, path=_inner(path, "") if path else ""
    )


def _inner(path: str, base: str) -> str:
    inner = inner_path(path if path.startswith("./") or path in (".",) else f"./{path}")
    above = inner_path(base if base.startswith("./") else f"./{base}") if base else ""
    if inner is None or above is None or path.startswith("/"):
        raise UsageError(f"its path {path[:80]!r} does not lie inside")
    if above and not path.startswith("./"):
        return f"{above}/{inner}" if inner else above
    return inner


def git_url(text: str) -> str:
    """The address of a git repository: https, ssh, or `owner/repo` on GitHub.

    Raises UsageError for any other: git has helpers that run programs (`ext::`) or read files.
    """
    if _SHORT.match(text):
        return f"https://github.com/{text.removesuffix('.git')}.git"
    if _SSH.match(text):
        return text
    parts = urlsplit(text) if text.isprintable() and " " not in text else urlsplit("")
    host = parts.hostname or "-"
    is_loopback = parts.scheme == "http" and host in _LOOPBACK
    is_known = parts.scheme in ("https", "ssh") or is_loopback
    if is_known and not host.startswith("-") and "::" not in text.partition("/")[0]:
        if parts.password is not None:
            raise UsageError("an address holds no password: use a credential helper of git")
        is_github = host == "github.com" and not parts.path.endswith(".git")
        return f"{text.rstrip('/')}.git" if is_github else text
    raise UsageError(f"{text[:120]!r} is neither an https or ssh address nor owner/repo")


def check_ref(text: str) -> str:
    """A branch, a tag or a commit, as git takes it. Raises UsageError."""
    if text and (not _REF.match(text) or ".." in text):
        raise UsageError(f"{text[:80]!r} is not a branch, tag or commit")
    return text
