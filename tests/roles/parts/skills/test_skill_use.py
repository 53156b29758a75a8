"""The last use of skills decides which ones stay in a full list; their servers are named."""

from pathlib import Path

import pytest

from swarm.roles.parts.skills.skill_file import Skill, parse_skill
from swarm.roles.parts.skills.skill_list import skill_lines
from swarm.roles.parts.skills.skill_servers import missing_servers
from swarm.roles.parts.skills.skill_use import USE_FILE, note_skill_use, read_skill_use


def skill(name: str) -> Skill:
    return Skill(name=name, description="x", path=f"/s/{name}", scope="user", digest="0")


ALL = tuple(skill(name) for name in "abc")
TWO_LINES = 2 * len("- a: x (file: /s/a)\n")


@pytest.mark.parametrize(
    ("used", "kept"),
    [
        ({}, "ab"),
        ({"/s/c": 5.0}, "ac"),
        ({"/s/c": 5.0, "/s/b": 4.0, "/s/a": 1.0}, "bc"),
        ({"/elsewhere": 9.0}, "ab"),
    ],
)
def test_the_last_used_stay_in_a_full_list_and_the_order_stays(used: dict[str, float], kept: str):
    found = skill_lines(ALL, limit_bytes=TWO_LINES, last_used=used)
    assert "".join(line[2] for line in found.lines) == kept
    assert found.left_out == 1


def test_uses_are_kept_for_the_newest_thousand(tmp_path: Path):
    note_skill_use(tmp_path, [f"/{number}" for number in range(1_000)], now_s=1.0)
    note_skill_use(tmp_path, ["/new"], now_s=2.0)
    last = read_skill_use(tmp_path)
    assert len(last) == 1_000
    assert last["/new"] == 2.0


@pytest.mark.parametrize("text", ["", "{", '{"last": 3}', "[]"])
def test_a_damaged_file_of_uses_counts_as_none(tmp_path: Path, text: str):
    (tmp_path / USE_FILE).write_text(text)
    assert read_skill_use(tmp_path) == {}
    note_skill_use(tmp_path, ["/a"], now_s=1.0)
    assert read_skill_use(tmp_path) == {"/a": 1.0}


SIDECAR = b"""
dependencies:
  tools:
    - {type: mcp, value: docs, url: "https://docs.example/mcp?a=1&b=2"}
    - {type: mcp, value: time, command: "mcp-server-time --utc"}
    - {type: mcp, value: bare}
    - {type: mcp, value: "x; rm -rf ~"}
    - {type: env_var, value: TOKEN}
    - 3
"""


def test_a_server_that_a_skill_needs_is_named_with_the_command_that_adds_it():
    data = b"---\nname: notes\ndescription: x\n---\n"
    needs = parse_skill(data, path="/s/notes/SKILL.md", scope="user", sidecar=SIDECAR)
    lines = list(missing_servers(needs, {"bare"}))
    assert [line.partition("trust it: ")[2] for line in lines] == [
        "swarm mcp add docs --url 'https://docs.example/mcp?a=1&b=2'",
        "swarm mcp add time -- mcp-server-time --utc",
    ]


@pytest.mark.parametrize("sidecar", [b"dependencies: 3", b"dependencies: {tools: {a: b}}", b"["])
def test_a_faulty_sidecar_needs_nothing(sidecar: bytes):
    data = b"---\nname: notes\ndescription: x\n---\n"
    assert parse_skill(data, path="/s/notes/SKILL.md", scope="user", sidecar=sidecar).servers == ()
