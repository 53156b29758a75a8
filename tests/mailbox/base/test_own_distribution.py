"""The line that adds an extra comes from how this copy was installed, and names no bare package."""

import json
import sys

import msgspec
import pytest

from swarm.mailbox.base import own_distribution
from swarm.mailbox.base.own_distribution import (
    Installation,
    find_own,
    line_for_extra,
    read_installation,
    render_install,
    render_move,
    warn_of_former_name,
)

NEEDS = {"local": ("xllamacpp>=2026.10",)}
WHEEL = "/w/swarm_supervisor-1-py3-none-any.whl"
PLAIN = Installation(
    environment="/e", python="/e/bin/python", name="swarm-supervisor", source=WHEEL, needs=NEEDS
)
PLACE = msgspec.structs.replace(PLAIN, source="/c", is_editable=True)
UNKNOWN = msgspec.structs.replace(PLAIN, source="")
REQUIRED = "'xllamacpp>=2026.10'"
PIP = "/e/bin/python -m pip"
UV = "uv pip install --python /e/bin/python"


def changed(base, **fields):
    return msgspec.structs.replace(base, **fields)


@pytest.mark.parametrize(
    ("installation", "line"),
    [
        (PLAIN, f"{PIP} install '{WHEEL}[local]'"),
        (changed(PLAIN, installer="uv"), f"{UV} '{WHEEL}[local]'"),
        (changed(PLAIN, installer=""), f"/e/bin/python -m ensurepip && {PIP} install "
         f"'{WHEEL}[local]'"),
        (PLACE, f"{PIP} install --editable '/c[local]'"),
        (changed(PLACE, source="/a b"), f"{PIP} install --editable '/a b[local]'"),
        (changed(PLACE, has_own_script=True), "/c/scripts/venv local"),
        (changed(PLAIN, installer="uv tool", extras=("ray",)),
         f"uv tool install --force '{WHEEL}[local,ray]'"),
        (changed(PLACE, installer="uv tool"), "uv tool install --force --editable '/c[local]'"),
        (changed(PLAIN, environment="/x/swarm-2", installer="pipx"),
         f"pipx inject swarm-2 {REQUIRED}"),
        (changed(PLAIN, source="git+https://h/r@abc"),
         f"{PIP} install 'swarm-supervisor[local] @ git+https://h/r@abc'"),
        (UNKNOWN, f"{PIP} install {REQUIRED}"),
        (changed(UNKNOWN, installer="uv tool"), f"{UV} {REQUIRED}"),
    ],
)  # fmt: skip
def test_the_line_names_where_this_copy_came_from(installation, line):
    assert render_install(installation, "local") == line


@pytest.mark.parametrize(
    ("installation", "line"),
    [
        (PLAIN, f"{PIP} uninstall -y swarm-agents && "
         f"{PIP} install --no-deps --force-reinstall {WHEEL}"),
        (changed(PLACE, installer="uv"), "uv pip uninstall --python /e/bin/python swarm-agents && "
         "uv pip install --python /e/bin/python --editable /c"),
        (changed(PLACE, installer="pipx"),
         "pipx uninstall swarm-agents && pipx install --force --editable /c"),
        (changed(PLACE, has_own_script=True), "/c/scripts/venv"),
    ],
)  # fmt: skip
def test_who_has_the_former_name_is_told_how_to_move(installation, line):
    assert render_move(installation) == line


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A folder of packages that is searched first."""
    folder = tmp_path / "site-packages"
    folder.mkdir()
    monkeypatch.setattr(sys, "path", [str(folder), *sys.path])
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    return folder


def install(site, name, command, **origin):
    info = site / f"{name.replace('-', '_')}-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.1.0\n"
        "Requires-Dist: trio\nRequires-Dist: pillow>=11; extra == 'images'\n"
    )
    (info / "entry_points.txt").write_text(f"[console_scripts]\nswarm = {command}\n")
    if origin:
        (info / "direct_url.json").write_text(json.dumps(origin))


def test_a_copy_from_an_index_is_given_what_the_extra_needs_alone(site):
    install(site, "swarm-supervisor", "swarm_command:main")
    assert read_installation().needs == {"images": ("pillow>=11",)}
    assert line_for_extra("images") == f"{sys.executable} -m pip install 'pillow>=11'" or (
        line_for_extra("images").startswith("uv pip install")
    )


def test_a_wheel_file_is_named_while_it_is_there_and_no_password_ever(site, tmp_path):
    wheel = tmp_path / "a.whl"
    install(site, "swarm-supervisor", "swarm_command:main", url=f"file://{wheel}", archive_info={})
    assert read_installation().source == ""
    wheel.touch()
    assert read_installation().source == str(wheel)
    (info,) = site.iterdir()
    (info / "direct_url.json").write_text('{"url": "https://me:word@h/a.whl", "archive_info": {}}')
    assert read_installation().source == "https://h/a.whl"
    (info / "direct_url.json").write_text("[")
    assert read_installation().source == ""


def test_the_former_name_counts_only_if_the_package_is_ours(site):
    install(site, "swarm-agents", "swarm.cli:main")
    assert find_own("swarm-agents") is None
    assert warn_of_former_name() is None
    (site / "swarm_agents-0.1.0.dist-info/entry_points.txt").write_text(
        "[console_scripts]\nswarm = swarm.supervisor.clients.cli.entry:main\n"
    )
    words = warn_of_former_name()
    assert words is not None
    assert "uninstall" in words
    assert words.count("\n") == 0


def test_extras_of_a_tool_environment_are_kept(site, tmp_path):
    install(site, "swarm-supervisor", "swarm_command:main", url=f"file://{site}", dir_info={})
    (tmp_path / "uv-receipt.toml").write_text(
        '[tool]\nrequirements = [{ name = "swarm-supervisor", extras = ["ray"] }]\n'
    )
    assert line_for_extra("mitm") == f"uv tool install --force '{site}[mitm,ray]'"
    (tmp_path / "uv-receipt.toml").write_text("[")
    assert read_installation().extras == ()


def test_every_extra_of_the_project_has_a_line(monkeypatch):
    here = msgspec.structs.replace(read_installation(), source="", has_own_script=False)
    monkeypatch.setattr(own_distribution, "read_installation", lambda: here)
    for extra in ("local", "images", "search", "keyring", "mitm", "ray"):
        assert here.needs[extra][0] in line_for_extra(extra)
