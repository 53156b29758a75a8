"""Reads a lock of Python packages that machines install: a file of pip's or of uv's.

The lock must name swarm, in this version: another one would be installed for nothing.
"""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import msgspec

from swarm.mailbox.errors import UsageError
from swarm.mailbox.safe_open import read_user_file

_MAX_BYTES = 4 << 20
_OWN_NAME = "swarm-agents"
_PINNED = re.compile(r"([A-Za-z0-9._-]+)\s*(?:\[[^]]*\])?\s*(?:===?\s*([^\s;,]+)|@\s*(\S+))")
_WHEEL = re.compile(r"swarm_agents-([^-/]+)-")


class _Package(msgspec.Struct):
    name: str
    version: str = ""
    source: dict[str, str] = {}


class _UvLock(msgspec.Struct):
    package: list[_Package] = []


class _PyLock(msgspec.Struct):
    packages: list[_Package] = []


def read_lock(key: str, path: str, *, version: str) -> dict[str, str]:
    """The files of the lock by their names there. Raises UsageError that names the key.

    Args:
        key: Where the configuration names it.
        path: Absolute, or below the home folder (`~/`).
        version: The only one of swarm that the lock may have.
    """
    file = Path(path).expanduser()
    if not file.is_absolute():
        raise UsageError(f"{key}: write an absolute path")
    text = _read(key, file)
    try:
        found, files = _understand(key, file, text)
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise UsageError(f"{key}: {file} cannot be read: {error}") from error
    if not found:
        raise UsageError(f"{key}: {file} does not name {_OWN_NAME}; add {_OWN_NAME}=={version}")
    if found != version:
        raise UsageError(
            f"{key}: {file} has {_OWN_NAME} {found}, and this is {version}: lock the same version"
        )
    return files


def _understand(key: str, file: Path, text: str) -> tuple[str, dict[str, str]]:
    """The version of swarm in it, "" for none, and what is sent."""
    if file.name == "uv.lock":
        lock = msgspec.convert(tomllib.loads(text), _UvLock)
        (own,) = [one for one in lock.package if one.name == _OWN_NAME][:1] or [_Package("")]
        if own.name and not {"registry", "url", "git"} & own.source.keys():
            raise UsageError(f"{key}: {_OWN_NAME} is a folder of this machine in {file}")
        project = file.with_name("pyproject.toml")
        return own.version, {"uv.lock": text, "pyproject.toml": _read(key, project)}
    if file.name.startswith("pylock.") and file.suffix == ".toml":
        packages = msgspec.convert(tomllib.loads(text), _PyLock).packages
        versions = [one.version for one in packages if one.name == _OWN_NAME]
        return "".join(versions[:1]), {"pylock.toml": text}
    pinned = dict(_requirements(key, file, text))
    return pinned.get(_OWN_NAME, ""), {"requirements.txt": text}


def _requirements(key: str, file: Path, text: str) -> Iterator[tuple[str, str]]:
    """Names and versions, of swarm also by an address. Raises UsageError for one that is open."""
    for line in text.replace("\\\n", " ").splitlines():
        word = line.partition(" #")[0].strip()
        if word.startswith(("-e ", "--editable", "-r ", "--requirement")):
            raise UsageError(
                f"{key}: {file} names a file or folder of this machine: `{word[:80]}`; "
                "`uv export --no-emit-project` leaves the project itself out"
            )
        if not word or word.startswith(("#", "-")):
            continue
        match = _PINNED.match(word)
        if match is None:
            raise UsageError(
                f"{key}: {file} is no lock: `{word[:80]}` pins no version; make one with "
                "`uv pip compile`, `uv export` or `pip freeze`"
            )
        name, version, address = match.groups()
        wheel = _WHEEL.search(address or "")
        yield re.sub(r"[-_.]+", "-", name).lower(), version or (wheel[1] if wheel else "")


def _read(key: str, file: Path) -> str:
    try:
        return read_user_file(file, most_bytes=_MAX_BYTES).decode()
    except (OSError, UnicodeDecodeError, ValueError) as error:
        raise UsageError(f"{key}: {file} cannot be read: {error}") from error
