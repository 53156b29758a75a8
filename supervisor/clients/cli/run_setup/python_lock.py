"""Reads a lock of Python packages that machines install: a file of pip's or of uv's.

The lock must name swarm, in this version: another one would be installed for nothing. It also says
where that comes from or what its hash is: an index may have a stranger's package under the name.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import msgspec

from swarm.mailbox.base.bounded_formats import parse_toml_text
from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.base.own_distribution import FORMER_NAME, NAME
from swarm.mailbox.base.safe_open import read_user_file

_MAX_BYTES = 4 << 20
_PINNED = re.compile(r"([A-Za-z0-9._-]+)\s*(?:\[[^]]*\])?\s*(?:===?\s*([^\s;,]+)|@\s*(\S+))")
_WHEEL = re.compile(r"swarm_supervisor-([^-/]+)-")
_HASH = re.compile(r"\s--hash[= ]\w+:[0-9a-f]")
_ADVICE = f"name the wheel: {NAME} @ file:///…/{NAME.replace('-', '_')}-"


class _Artifact(msgspec.Struct):
    hash: str = ""
    hashes: dict[str, str] = {}


class _Package(msgspec.Struct):
    name: str
    version: str = ""
    source: dict[str, str] = {}  # of uv.lock
    wheels: list[_Artifact] = []
    sdist: _Artifact | None = None
    archive: _Artifact | None = None  # the rest is of pylock.toml
    vcs: dict[str, str] | None = None

    @property
    def is_held(self) -> bool:
        """True if an address or a hash says what it is, and not its name alone."""
        if {"url", "git"} & self.source.keys() or self.archive or self.vcs:
            return True
        return any(one.hash or one.hashes for one in (*self.wheels, self.sdist) if one)


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
    except (ValueError, msgspec.ValidationError) as error:
        raise UsageError(f"{key}: {file} cannot be read: {error}") from error
    if not found.version:
        raise UsageError(f"{key}: {file} does not name {NAME}; {_ADVICE}{version}")
    if found.version != version:
        raise UsageError(
            f"{key}: {file} has {NAME} {found.version}, and this is {version}: "
            "lock the same version"
        )
    if not found.is_held:
        raise UsageError(
            f"{key}: {file} names {NAME} without a hash or an address, so whoever has that name on "
            f"an index would be run; lock it with hashes, or {_ADVICE}{version}"
        )
    return files


def _understand(key: str, file: Path, text: str) -> tuple[_Package, dict[str, str]]:
    """What it says of swarm, and what is sent."""
    if file.name == "uv.lock":
        own = _own_package(key, file, msgspec.convert(parse_toml_text(text), _UvLock).package)
        if own.name and not {"registry", "url", "git"} & own.source.keys():
            raise UsageError(f"{key}: {NAME} is a folder of this machine in {file}")
        project = file.with_name("pyproject.toml")
        sent = {"uv.lock": text, "pyproject.toml": _read(key, project)}
    elif file.name.startswith("pylock.") and file.suffix == ".toml":
        own = _own_package(key, file, msgspec.convert(parse_toml_text(text), _PyLock).packages)
        sent = {"pylock.toml": text}
    else:
        pinned = {one.name: one for one in _requirements(key, file, text)}
        own = _own_package(key, file, list(pinned.values()))
        sent = {"requirements.txt": text}
    return own, sent


def _own_package(key: str, file: Path, packages: list[_Package]) -> _Package:
    """The entry of swarm, or one without a version. Raises UsageError for its former name."""
    by_name = {one.name: one for one in packages}
    if FORMER_NAME in by_name:
        raise UsageError(
            f"{key}: {file} names {FORMER_NAME}, the former name of swarm: on package indexes that "
            f"is somebody else's package. Lock {NAME} instead"
        )
    return by_name.get(NAME, _Package(""))


def _requirements(key: str, file: Path, text: str) -> Iterator[_Package]:
    """Each pinned package, swarm also by an address. Raises UsageError for one that is open."""
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
                f"{key}: {file} is not a lock: `{word[:80]}` pins no version; make one with "
                "`uv pip compile`, `uv export` or `pip freeze`"
            )
        name, version, address = match.groups()
        wheel = _WHEEL.search(address or "")
        is_held = address or _HASH.search(word)
        yield _Package(
            name=re.sub(r"[-_.]+", "-", name).lower(),
            version=version or (wheel[1] if wheel else ""),
            archive=_Artifact() if is_held else None,
        )


def _read(key: str, file: Path) -> str:
    try:
        return read_user_file(file, most_bytes=_MAX_BYTES).decode()
    except (OSError, UnicodeDecodeError, ValueError) as error:
        raise UsageError(f"{key}: {file} cannot be read: {error}") from error
