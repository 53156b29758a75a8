"""Looks at a repository without running anything of it: folders and build files, bounded.

What it finds is data of strangers: names and texts are used by `build_commands.py` and
`agents_section.py`, which quote or leave out what is no plain name.
"""

from collections import Counter
from pathlib import Path, PurePath

from swarm.mailbox.base.safe_open import READ_FLAGS, open_canonical, read_start, scan_folder
from swarm.mailbox.base.written_text import decode_leniently
from swarm.mailbox.protocol.values.base import Value

_FOREIGN = frozenset(
    ("node_modules", "site-packages", "vendor", "venv", "__pycache__", "target", "dist", "build")
)
_READ = (
    "pyproject.toml", "setup.py", "setup.cfg", "tox.ini", "noxfile.py", "pytest.ini", "ruff.toml",
    "requirements.txt", "package.json", "tsconfig.json", "deno.json", "Cargo.toml", "rustfmt.toml",
    "go.mod", "Makefile", "GNUmakefile", "makefile", "justfile", "Justfile", "CMakeLists.txt",
    "pom.xml", "build.gradle", "build.gradle.kts", "gradlew", "mvnw", "Gemfile", "composer.json",
    "mix.exs", ".editorconfig", ".pre-commit-config.yaml", ".gitlab-ci.yml",
)  # fmt: skip
_NAMED = (
    "package-lock.json", "pnpm-lock.yaml", "yarn.lock", "bun.lock", "bun.lockb", "uv.lock",
    "poetry.lock", "pdm.lock", "CONTRIBUTING.md", "README.md", "README.rst", "README", "LICENSE",
    "CHANGELOG.md", "Dockerfile", ".golangci.yml", "eslint.config.js", ".prettierrc",
    "biome.json",
)  # fmt: skip
_WORKFLOWS = ".github/workflows"
_MOST_WORKFLOWS = 10
_FILE_BYTES = 64 << 10
_MOST_ENTRIES, _MOST_LEVELS, _MOST_FOLDERS = 20_000, 6, 200


class FolderSurvey(Value):
    """A folder at the top: its files, and their commonest kinds (`.py`)."""

    name: str
    files: int = 0
    kinds: tuple[str, ...] = ()
    executables: tuple[str, ...] = ()  # names of executable files directly in it


class RepositorySurvey(Value):
    """`files`: the text of build files by their path. `present`: further files that exist.

    `is_cut`: there is more than was looked at. `subjects`: of the newest commits.
    """

    name: str
    files: dict[str, str] = {}
    present: tuple[str, ...] = ()
    folders: tuple[FolderSurvey, ...] = ()
    is_cut: bool = False
    subjects: tuple[str, ...] = ()


def survey_repository(root: Path, *, subjects: tuple[str, ...] = ()) -> RepositorySurvey:
    """Look at the folder `root`, a canonical path. Unreadable files count as absent.

    Raises OSError if the folder itself cannot be read.
    """
    counter = _Counter()
    with scan_folder(str(root)) as entries:
        names = sorted(
            entry.name
            for entry, _ in zip(entries, range(_MOST_ENTRIES), strict=False)
            if entry.is_dir(follow_symlinks=False) and _is_own(entry.name)
        )
    folders = [counter.look_at(root / name) for name in names[:_MOST_FOLDERS]]
    paths = [*_READ, *_workflows(root)]
    texts = {path: text for path in paths if (text := _read(root / path)) is not None}
    return RepositorySurvey(
        name=root.name,
        files=texts,
        present=tuple(name for name in _NAMED if _read(root / name) is not None),
        folders=tuple(folder for folder in folders if folder.files),
        is_cut=counter.left <= 0 or len(names) > _MOST_FOLDERS,
        subjects=subjects,
    )


class _Counter:
    """Counts files below folders, all within one bound."""

    def __init__(self) -> None:
        self.left = _MOST_ENTRIES

    def look_at(self, folder: Path) -> FolderSurvey:
        kinds, executables = Counter[str](), list[str]()
        level = [folder]
        for depth in range(_MOST_LEVELS):
            below: list[Path] = []
            for place in level:
                below += self._look_in(place, kinds, executables if depth == 0 else None)
            level = below
        return FolderSurvey(
            name=folder.name,
            files=sum(kinds.values()),
            kinds=tuple(kind for kind, _ in kinds.most_common(2) if kind),
            executables=tuple(sorted(executables)[:20]),
        )

    def _look_in(
        self, place: Path, kinds: Counter[str], executables: list[str] | None
    ) -> list[Path]:
        below: list[Path] = []
        try:
            with scan_folder(str(place)) as entries:
                for entry in entries:
                    self.left -= 1
                    if self.left <= 0:
                        break
                    if entry.is_dir(follow_symlinks=False):
                        if _is_own(entry.name):
                            below.append(place / entry.name)
                    elif entry.is_file(follow_symlinks=False):
                        kinds[PurePath(entry.name).suffix.lower()] += 1
                        mode = entry.stat(follow_symlinks=False).st_mode
                        if executables is not None and mode & 0o100:
                            executables.append(entry.name)
        except OSError:
            pass  # it vanished, or is closed to the person: what was counted stays
        return below


def _is_own(name: str) -> bool:
    return not (name.startswith(".") or name in _FOREIGN or name.endswith(".egg-info"))


def _workflows(root: Path) -> list[str]:
    try:
        with scan_folder(str(root / _WORKFLOWS)) as entries:
            names = [
                entry.name
                for entry, _ in zip(entries, range(1_000), strict=False)
                if entry.name.endswith((".yml", ".yaml"))
            ]
    except OSError:
        return []
    return [f"{_WORKFLOWS}/{name}" for name in sorted(names)[:_MOST_WORKFLOWS]]


def _read(path: Path) -> str | None:
    """The first 64 KiB of a regular file; None for a link, a folder, or none."""
    try:
        data = read_start(open_canonical(str(path), READ_FLAGS), most_bytes=_FILE_BYTES)
    except OSError:
        return None
    return decode_leniently(data, is_whole=len(data) < _FILE_BYTES).text
