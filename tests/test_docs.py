"""The documentation says what the code is: every message is named, every link leads somewhere.

Rule guarded: who adds a message, a folder or a page learns here what else has to be told.
"""

import importlib
import pkgutil
import re
import tomllib
from pathlib import Path
from types import UnionType
from typing import get_args

import pytest

from swarm.mailbox import protocol
from swarm.mailbox.protocol.values.base import Tagged
from swarm.supervisor.base.version import VERSION

ROOT = Path(__file__).parent.parent
PACKAGES = ("mailbox", "roles", "worker", "supervisor")
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
NEWS_KINDS = {"feature", "change", "fix"}
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_FENCE = re.compile(r"^ *```.*?^ *```", re.MULTILINE | re.DOTALL)
_MODULE = re.compile(r"`([\w/{},-]+\.py)`")
# In pieces, so that this file does not name them itself.
_REGISTRIES = tuple(
    ".".join(parts)
    for parts in (
        ("pypi", "org"),
        ("pythonhosted", "org"),
        ("npmjs", "org"),
        ("npmjs", "com"),
        ("crates", "io"),
        ("proxy", "golang", "org"),
    )
)


def members_of_unions() -> dict[str, str]:
    """Class name → module of every tagged struct that is in a union of the protocol."""
    found: dict[str, str] = {}
    for module in pkgutil.walk_packages(protocol.__path__, protocol.__name__ + "."):
        for value in vars(importlib.import_module(module.name)).values():
            args = get_args(value) if isinstance(value, UnionType) else (value,)
            for one in args:
                if isinstance(one, type) and issubclass(one, Tagged) and one is not Tagged:
                    found[one.__name__] = one.__module__.rpartition(".")[2]
    return found


def texts_of_the_house() -> list[Path]:
    folders = (*PACKAGES, "tests", "docs", "scripts", "examples", ".ci")
    kinds = {".py", ".md", ".toml", ".txt", ".yaml", ".json", ".svg", ""}
    found = [path for name in folders for path in (ROOT / name).rglob("*")]
    found += [ROOT / "README.md", ROOT / "pyproject.toml", ROOT / "constraints.txt"]
    return [path for path in found if path.is_file() and path.suffix in kinds]


@pytest.fixture(scope="module")
def setuptools_table():
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)["tool"]["setuptools"]


def test_every_message_of_the_protocol_is_named_in_its_page():
    named = set(re.findall(r"`(\w+)`", (ROOT / "docs/protocol.md").read_text(encoding="utf-8")))
    members = members_of_unions()
    assert len(members) > 90, "the unions were not found"
    assert {name: where for name, where in members.items() if name not in named} == {}


def test_every_part_of_the_protocol_is_named_in_its_page():
    page = (ROOT / "docs/protocol.md").read_text(encoding="utf-8")
    modules = {module.name for module in pkgutil.iter_modules(protocol.__path__)} - {"values"}
    assert {name for name in modules if f"`{name}.py`" not in page} == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_relative_link_leads_to_a_file(page):
    text = _FENCE.sub("", page.read_text(encoding="utf-8"))
    targets = [target.partition("#")[0] for target in _LINK.findall(text) if "://" not in target]
    assert [t for t in targets if t and not (page.parent / t).exists()] == []


@pytest.mark.parametrize("name", ["architecture", "development", "protocol"])
def test_every_module_that_is_named_exists(name):
    text = (ROOT / f"docs/{name}.md").read_text(encoding="utf-8")
    roots = [
        ROOT,
        *(ROOT / package for package in PACKAGES),
        ROOT / "mailbox/protocol",
        ROOT / "tests",
    ]
    paths = [path for path in _MODULE.findall(text) if "{" not in path]
    assert paths
    lost = [path for path in paths if not any((root / path).is_file() for root in roots)]
    assert [path for path in lost if not list(ROOT.glob(f"*/golden/{path}"))] == []


def test_every_python_file_that_a_docstring_or_a_comment_names_exists():
    own = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
    names = {path.name for path in own} | {path.name for path in (ROOT / "scripts").rglob("*.py")}
    named = re.compile(r"`(?:[\w/]+/)?(\w+\.py)(?::[\w.]+)?`")
    lost = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in own
        for name in named.findall(path.read_text("utf-8"))
        if name not in names
    }
    assert lost == set()


def test_each_package_is_mapped_by_itself(setuptools_table):
    assert setuptools_table["package-dir"] == {
        **{f"swarm.{package}": package for package in PACKAGES},
        "swarm_command": "supervisor/launcher",
    }


def test_nothing_names_the_host_of_a_package_registry():
    found = [
        f"{path.relative_to(ROOT)}: {host}"
        for path in texts_of_the_house()
        for host in _REGISTRIES
        if host in path.read_text(encoding="utf-8", errors="replace").lower()
    ]
    assert found == []


def test_news_fragments_are_short_and_of_a_known_kind():
    fragments = list((ROOT / "docs/news").iterdir())
    assert fragments
    for path in fragments:
        slug, kind, ending = path.name.split(".")
        text = path.read_text(encoding="utf-8")
        assert re.fullmatch(r"[a-z0-9-]+", slug), path.name
        assert kind in NEWS_KINDS, path.name
        assert ending == "md", path.name
        assert 10 < len(text) <= 400, path.name


def test_the_readme_shows_the_two_commands_and_where_they_are():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for command in ("scripts/swarm run examples/tour.md", "scripts/test"):
        assert f"$ {command}\n" in text
        assert (ROOT / command.split()[0]).is_file()
    assert (ROOT / "examples/tour.md").is_file()


def test_the_version_is_the_one_of_the_distribution():
    table = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert table["project"]["version"] == VERSION
