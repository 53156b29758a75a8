"""How this copy of swarm was installed, and the command line that adds an extra to it.

Nobody is ever told to install a bare name: on a package index it may be a stranger's. The line
names the checkout or wheel file that this copy came from, or else what the extra needs alone.
"""

import re
import shutil
import sys
import tomllib
from collections.abc import Iterator
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from shlex import quote
from typing import Protocol
from urllib.parse import unquote, urlsplit

import msgspec

NAME = "swarm-supervisor"
FORMER_NAME = "swarm-agents"  # on package indexes this is somebody else's package
_OUR_PACKAGES = ("swarm.supervisor.", "swarm_command:")  # what the command of our metadata starts
_EXTRA = re.compile(r"""extra\s*==\s*['"]([\w-]+)['"]""")
_METADATA_LIMIT_BYTES = 1 << 20


class InstalledPackage(Protocol):
    """What is used of `importlib.metadata.Distribution`."""

    @property
    def name(self) -> str: ...
    @property
    def requires(self) -> list[str] | None: ...
    def read_text(self, filename: str, /) -> str | None: ...


class Installation(msgspec.Struct, frozen=True):
    """What is known of the environment that runs this code."""

    environment: str  # its folder
    python: str
    installer: str = "pip"  # pip, uv, "" for neither, or the tool that owns it: "uv tool", "pipx"
    name: str = ""  # of the distribution, "" if the code is not installed
    source: str = ""  # a path, or an address with its scheme; "" if it is not known or is gone
    is_editable: bool = False
    has_own_script: bool = False  # the environment is the checkout's, which `scripts/venv` makes
    extras: tuple[str, ...] = ()  # those that the tool was asked for
    needs: dict[str, tuple[str, ...]] = {}  # requirements by extra


class _Archive(msgspec.Struct):
    editable: bool = False


class _Repository(msgspec.Struct):
    vcs: str
    commit_id: str


class _DirectUrl(msgspec.Struct):
    """PEP 610."""

    url: str
    dir_info: _Archive | None = None
    vcs_info: _Repository | None = None


class _Wanted(msgspec.Struct):
    name: str = ""
    extras: tuple[str, ...] = ()


class _Tool(msgspec.Struct):
    requirements: tuple[_Wanted, ...] = ()


class _Receipt(msgspec.Struct):
    """What `uv tool` keeps of an environment."""

    tool: _Tool = msgspec.field(default_factory=_Tool)


def line_for_extra(extra: str) -> str:
    """The command line that adds `extra` to this copy of swarm."""
    return render_install(read_installation(), extra)


def render_install(installation: Installation, extra: str = "", *, anew: bool = False) -> str:
    """The command line that installs this copy with `extra`.

    Args:
        anew: Install it also if the same version is there.
    """
    here = installation
    if here.has_own_script:
        return " ".join([quote(f"{here.source}/scripts/venv"), *filter(None, [extra])])
    needs = [quote(one) for one in here.needs.get(extra, ())]
    if here.installer == "pipx" and extra:
        return " ".join(["pipx", "inject", quote(Path(here.environment).name), *needs])
    if not here.source:
        what = needs or [f"(the wheel file or checkout of {NAME} that you have)"]
        return " ".join([_pip_install(here), *what])
    tool = here.installer in {"uv tool", "pipx"}
    words = [f"{here.installer} install --force" if tool else _pip_install(here)]
    if anew and not tool and not here.is_editable:
        words.append("--no-deps --reinstall" if here.installer == "uv" else
                     "--no-deps --force-reinstall")  # fmt: skip
    words += ["--editable"] if here.is_editable else []
    return " ".join([*words, quote(_with_extras(here.source, {*here.extras, extra} - {""}))])


def render_move(installation: Installation) -> str:
    """The command line that removes our metadata under the former name and installs this copy."""
    here = installation
    if here.has_own_script:
        return render_install(here)
    if here.installer in {"uv tool", "pipx"}:
        remove = f"{here.installer} uninstall {FORMER_NAME}"
    elif here.installer == "uv":
        remove = f"uv pip uninstall --python {quote(here.python)} {FORMER_NAME}"
    else:
        remove = f"{_pip(here)} uninstall -y {FORMER_NAME}"
    return f"{remove} && {render_install(here, anew=True)}"


def _pip(installation: Installation) -> str:
    python = quote(installation.python)
    begin = f"{python} -m ensurepip && " if not installation.installer else ""
    return f"{begin}{python} -m pip"


def _pip_install(installation: Installation) -> str:
    if installation.installer in {"uv", "uv tool"}:
        return f"uv pip install --python {quote(installation.python)}"
    return f"{_pip(installation)} install"


def _with_extras(source: str, extras: set[str]) -> str:
    asked = f"[{','.join(sorted(extras))}]" if extras else ""
    return f"{NAME}{asked} @ {source}" if "://" in source else f"{source}{asked}"


def read_installation() -> Installation:
    """How this copy was installed. What cannot be read is left out; nothing is raised."""
    environment = Path(sys.prefix)
    found = find_own(NAME) or find_own(FORMER_NAME)
    source, is_editable = _source(found) if found is not None else (_checkout(), True)
    own_script = is_editable and (Path(source) / "scripts/venv").is_file()
    return Installation(
        environment=str(environment),
        python=sys.executable,
        installer=_installer(environment),
        name=found.name if found is not None else "",
        source=source,
        is_editable=is_editable,
        has_own_script=own_script and environment == Path(source) / ".venv",
        extras=_tool_extras(environment / "uv-receipt.toml"),
        needs=_needs(found) if found is not None else {},
    )


def find_own(name: str) -> InstalledPackage | None:
    """The installed distribution of that name if it is ours; None for a stranger's."""
    from importlib.metadata import distributions  # takes 8 ms, which few have to pay

    with suppress(OSError, ValueError):
        for one in distributions(name=name):
            text = (one.read_text("entry_points.txt") or "")[:_METADATA_LIMIT_BYTES]
            if any(f"= {start}" in text for start in _OUR_PACKAGES):
                return one
    return None


def warn_of_former_name() -> str | None:
    """One line that says how to move, if this environment holds us under the former name."""
    start = FORMER_NAME.replace("-", "_") + "-"
    if not any(one.startswith(start) for folder in _package_folders() for one in _names(folder)):
        return None
    if find_own(FORMER_NAME) is None:
        return None
    return (
        f"swarm is installed here under its former name {FORMER_NAME}, which on package indexes is "
        f"somebody else's package; to move: {render_move(read_installation())}"
    )


def _package_folders() -> Iterator[Path]:
    for folder in map(Path, sys.path):
        if folder.name in {"site-packages", "dist-packages"}:
            yield folder


def _names(folder: Path) -> list[str]:
    try:
        return [one.name for one in folder.iterdir() if one.name.endswith("-info")]
    except OSError:
        return []


def _checkout() -> str:
    """The checkout that holds this file; "" if it lies among installed packages."""
    root = Path(__file__).resolve().parents[2]
    return str(root) if (root / "pyproject.toml").is_file() else ""


def _source(distribution: InstalledPackage) -> tuple[str, bool]:
    """Where it was installed from, and whether it is used in place. Without passwords."""
    try:
        text = distribution.read_text("direct_url.json") or ""
        origin = msgspec.json.decode(text, type=_DirectUrl)
        parts = urlsplit(origin.url)
    except (msgspec.MsgspecError, ValueError, OSError):
        return "", False
    is_editable = origin.dir_info is not None and origin.dir_info.editable
    if parts.scheme == "file" and origin.vcs_info is None:
        path = unquote(parts.path)
        return (path, is_editable) if Path(path).exists() else ("", False)
    address = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
    if (repository := origin.vcs_info) is not None:
        address = f"{repository.vcs}+{address}@{repository.commit_id}"
    return address, False


def _installer(environment: Path) -> str:
    """Who can install here: a tool that owns the environment, else pip, else uv."""
    if (environment / "uv-receipt.toml").is_file():
        return "uv tool"
    if (environment / "pipx_metadata.json").is_file():
        return "pipx"
    if find_spec("pip") is not None:
        return "pip"
    return "uv" if shutil.which("uv") else ""


def _tool_extras(receipt: Path) -> tuple[str, ...]:
    try:
        table = msgspec.convert(tomllib.loads(receipt.read_text(encoding="utf-8")), _Receipt)
    except (OSError, ValueError, msgspec.MsgspecError):
        return ()
    return tuple(one for wanted in table.tool.requirements if wanted.name == NAME
                 for one in wanted.extras)  # fmt: skip


def _needs(distribution: InstalledPackage) -> dict[str, tuple[str, ...]]:
    """The requirements of each extra, without their markers."""
    needs: dict[str, tuple[str, ...]] = {}
    for line in distribution.requires or ():
        requirement, _, marker = line.partition(";")
        if (extra := _EXTRA.search(marker)) is not None:
            needs[extra[1]] = (*needs.get(extra[1], ()), requirement.strip())
    return needs
