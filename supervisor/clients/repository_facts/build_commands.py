"""Finds the commands that build, test and check a project in its build files. Pure; runs nothing.

Each command names the file that it was found in. A name that is no plain word is left out: it would
be read by models as if a person had written it.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, cast

import msgspec

from swarm.mailbox.base.bounded_formats import decode_json, parse_toml_text
from swarm.mailbox.protocol.values.base import Value

from .repository_survey import RepositorySurvey

Purpose = Literal["install", "build", "run", "test", "one test", "check", "format", "docs"]
_PURPOSES: dict[str, Purpose] = {
    "install": "install", "setup": "install", "bootstrap": "install", "build": "build",
    "compile": "build", "all": "build", "run": "run", "start": "run", "dev": "run",
    "serve": "run", "test": "test", "tests": "test", "check": "check", "lint": "check",
    "typecheck": "check", "types": "check", "mypy": "check", "ci": "check", "verify": "check",
    "format": "format", "fmt": "format", "docs": "docs", "doc": "docs",
}  # fmt: skip
_WORD = re.compile(r"[A-Za-z0-9][\w.+:-]{0,63}")
_TARGET = re.compile(r"^([A-Za-z0-9][\w.-]{0,63})\s*:(?!=)", re.MULTILINE)
_RECIPE = re.compile(r"^([A-Za-z0-9][\w-]{0,63})(?: [^:=\n]*)?:(?!=)", re.MULTILINE)
_CI_RUN = re.compile(r"^(?P<indent>[ \t]*)(?:- )?run:[ \t]*(?P<text>[^\n]*)$", re.MULTILINE)
_CI_PROGRAMS = re.compile(
    r"(?:make|just|npm|pnpm|yarn|bun|npx|pytest|python3?|tox|nox|uv|poetry|hatch|pdm|ruff|mypy|"
    r"pyright|cargo|go|mvn|gradle|bundle|rake|mix|ctest|cmake|\./gradlew|\./mvnw|(?:\./)?scripts/[\w.-]+)\b"
)
_CI_LINE = re.compile(r"[\w ./:=@,+-]{1,100}")
_MOST_CI = 8
_CI_CHARS = 8_000  # of one script
_Table = dict[str, object]


class BuildCommand(Value):
    """A command line, what it is for, and the file that says so."""

    purpose: Purpose
    command: str
    source: str


def find_commands(survey: RepositorySurvey) -> tuple[BuildCommand, ...]:
    """The commands of a project in a fixed order, each once; none that is not in a file."""
    readers = (_make, _just, _python, _node, _rust, _go, _java, _others, _scripts, _ci)
    found: dict[str, BuildCommand] = {}
    for reader in readers:
        for one in reader(survey):
            found.setdefault(one.command, one)
    return tuple(found.values())


def line_width(survey: RepositorySurvey) -> int | None:
    """The longest line that ruff allows, as pyproject.toml says; None if it does not say."""
    width = _table(_python_tools(survey).get("ruff")).get("line-length")
    return width if isinstance(width, int) else None


def project_description(survey: RepositorySurvey) -> str:
    """What a package file says of the project, in one line of at most 160 characters; or ""."""
    tables = (
        _table(_toml(survey, "pyproject.toml").get("project")),
        _table(_toml(survey, "Cargo.toml").get("package")),
        _json(survey, "package.json"),
    )
    texts = (table.get("description") for table in tables)
    text = next((one for one in texts if isinstance(one, str) and one.strip()), "")
    plain = "".join(letter if letter.isprintable() else " " for letter in text)
    return " ".join(plain.split())[:160]


def _python_tools(survey: RepositorySurvey) -> _Table:
    return _table(_toml(survey, "pyproject.toml").get("tool"))


def _make(survey: RepositorySurvey) -> Iterator[BuildCommand]:
    for name in ("GNUmakefile", "makefile", "Makefile"):
        if name in survey.files:
            yield from _named(_TARGET.findall(survey.files[name]), "make {}", name)
            return


def _just(survey: RepositorySurvey) -> Iterator[BuildCommand]:
    for name in ("justfile", "Justfile"):
        yield from _named(_RECIPE.findall(survey.files.get(name, "")), "just {}", name)


def _python(survey: RepositorySurvey) -> Iterator[BuildCommand]:
    tools, files = _python_tools(survey), survey.files
    where = "pyproject.toml"
    runner = next(
        (
            f"{name} run "
            for name, lock in (("uv", "uv.lock"), ("poetry", "poetry.lock"), ("pdm", "pdm.lock"))
            if lock in survey.present
        ),
        "",
    )
    if runner:
        verb = "sync" if runner == "uv run " else "install"
        yield BuildCommand(purpose="install", command=f"{runner.split()[0]} {verb}", source=where)
    if "pytest" in tools or "pytest.ini" in files or "[tool:pytest]" in files.get("setup.cfg", ""):
        source = (
            where if "pytest" in tools else "pytest.ini" if "pytest.ini" in files else "setup.cfg"
        )
        yield BuildCommand(purpose="test", command=f"{runner}pytest", source=source)
        one = f"{runner}pytest path/to/test_file.py::test_name"
        yield BuildCommand(purpose="one test", command=one, source=source)
    if "tox.ini" in files:
        yield BuildCommand(purpose="test", command="tox", source="tox.ini")
    if "noxfile.py" in files:
        yield BuildCommand(purpose="test", command="nox", source="noxfile.py")
    if "ruff" in tools or "ruff.toml" in files:
        source = where if "ruff" in tools else "ruff.toml"
        yield BuildCommand(purpose="check", command=f"{runner}ruff check .", source=source)
    for name in ("mypy", "pyright"):
        if name in tools:
            yield BuildCommand(purpose="check", command=f"{runner}{name}", source=where)


def _node(survey: RepositorySurvey) -> Iterator[BuildCommand]:
    if "package.json" not in survey.files:
        return
    locks = {"pnpm-lock.yaml": "pnpm", "yarn.lock": "yarn", "bun.lock": "bun", "bun.lockb": "bun"}
    manager = next((locks[name] for name in survey.present if name in locks), "npm")
    yield BuildCommand(purpose="install", command=f"{manager} install", source="package.json")
    scripts = _table(_json(survey, "package.json").get("scripts"))
    yield from _named(scripts, f"{manager} run {{}}", "package.json")


def _rust(survey: RepositorySurvey) -> Iterator[BuildCommand]:
    if "Cargo.toml" in survey.files:
        source = "Cargo.toml"
        yield BuildCommand(purpose="build", command="cargo build", source=source)
        yield BuildCommand(purpose="test", command="cargo test", source=source)
        yield BuildCommand(purpose="one test", command="cargo test test_name", source=source)


def _go(survey: RepositorySurvey) -> Iterator[BuildCommand]:
    if "go.mod" in survey.files:
        yield BuildCommand(purpose="build", command="go build ./...", source="go.mod")
        yield BuildCommand(purpose="test", command="go test ./...", source="go.mod")
        yield BuildCommand(
            purpose="one test", command="go test ./path -run TestName", source="go.mod"
        )


def _java(survey: RepositorySurvey) -> Iterator[BuildCommand]:
    if "pom.xml" in survey.files:
        program = "./mvnw" if "mvnw" in survey.files else "mvn"
        yield BuildCommand(purpose="test", command=f"{program} test", source="pom.xml")
    for name in ("build.gradle", "build.gradle.kts"):
        if name in survey.files:
            program = "./gradlew" if "gradlew" in survey.files else "gradle"
            yield BuildCommand(purpose="build", command=f"{program} build", source=name)
            yield BuildCommand(purpose="test", command=f"{program} test", source=name)


def _others(survey: RepositorySurvey) -> Iterator[BuildCommand]:
    if "CMakeLists.txt" in survey.files:
        command = "cmake -B build && cmake --build build"
        yield BuildCommand(purpose="build", command=command, source="CMakeLists.txt")
    if "mix.exs" in survey.files:
        yield BuildCommand(purpose="test", command="mix test", source="mix.exs")
    if ".pre-commit-config.yaml" in survey.files:
        source = ".pre-commit-config.yaml"
        yield BuildCommand(purpose="check", command="pre-commit run --all-files", source=source)
    scripts = _table(_json(survey, "composer.json").get("scripts"))
    yield from _named(scripts, "composer {}", "composer.json")


def _scripts(survey: RepositorySurvey) -> Iterator[BuildCommand]:
    for folder in survey.folders:
        if folder.name in {"scripts", "bin", "script", "tools"}:
            stems = {name.partition(".")[0]: name for name in folder.executables}
            for stem, name in stems.items():
                purpose = _PURPOSES.get(stem)
                if purpose is not None and _WORD.fullmatch(name):
                    command = f"{folder.name}/{name}"
                    yield BuildCommand(purpose=purpose, command=command, source=f"{folder.name}/")


def _ci(survey: RepositorySurvey) -> Iterator[BuildCommand]:
    """Plain one-line commands of well-known programs in CI files; nothing with variables."""
    seen = 0
    for path, text in survey.files.items():
        if not path.startswith(".github/"):
            continue
        for line in _ci_lines(text):
            if seen < _MOST_CI and _CI_PROGRAMS.match(line) and _CI_LINE.fullmatch(line):
                seen += 1
                name = path if _WORD.fullmatch(path.rpartition("/")[2]) else ".github/workflows"
                yield BuildCommand(purpose=_purpose_of(line), command=line, source=name)


def _ci_lines(text: str) -> Iterator[str]:
    for found in _CI_RUN.finditer(text):
        first = found["text"].strip()
        if first not in {"|", ">", "|-", ">-"}:
            yield first.strip("'\"")
            continue
        for line in text[found.end() + 1 : found.end() + _CI_CHARS].split("\n")[:50]:
            if line.strip() and len(line) - len(line.lstrip()) <= len(found["indent"]):
                break
            yield line.strip()


def _purpose_of(line: str) -> Purpose:
    words = re.split(r"[\s/:-]+", line)
    if any(word in {"pytest", "ctest", "tox", "nox"} for word in words):
        return "test"
    for word in words:
        if (purpose := _PURPOSES.get(word)) is not None:
            return purpose
    return "check"


def _named(
    names: Sequence[str] | Mapping[str, object], form: str, source: str
) -> Iterator[BuildCommand]:
    for name in dict.fromkeys(names):
        purpose = _PURPOSES.get(re.split(r"[:.-]", name)[0])
        if purpose is not None and _WORD.fullmatch(name):
            yield BuildCommand(purpose=purpose, command=form.format(name), source=source)


def _toml(survey: RepositorySurvey, name: str) -> _Table:
    try:
        return parse_toml_text(survey.files.get(name, ""))
    except ValueError:
        return {}


def _json(survey: RepositorySurvey, name: str) -> _Table:
    try:
        value = decode_json(survey.files.get(name, "{}"))
    except msgspec.DecodeError:
        return {}
    return _table(value)


def _table(value: object) -> _Table:
    return cast("_Table", value) if isinstance(value, dict) else {}
