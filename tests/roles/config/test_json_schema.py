"""The shipped JSON Schema is the structs', and the page about the configuration names every key."""

import re
import tomllib
from pathlib import Path
from typing import Any

import jsonschema_rs
import msgspec
import pytest

from swarm.roles.config.dotted_key import parse_key
from swarm.roles.config.json_schema import config_schema, render_schema
from swarm.roles.config.key_path import check_key

ROOT = Path(__file__).parents[3]
SHIPPED = ROOT / "roles" / "data" / "config.schema.json"
PAGE = "".join((ROOT / "docs" / name).read_text("utf-8") for name in ("config.md", "mcp.md"))
_ROW = re.compile(r"^\| (`.*?) \|(?: [^|]*\|)* ?$", re.MULTILINE)


def is_valid(text):
    return jsonschema_rs.validator_for(config_schema()).is_valid(tomllib.loads(text))


def test_the_shipped_file_is_current():
    assert SHIPPED.read_text("utf-8") == render_schema(), (
        "run: swarm config schema > roles/data/config.schema.json"
    )


@pytest.mark.parametrize(
    "text",
    [
        "", "model = 'x'", "[agents]\nmax_depth = 2\n[agents.scout]\ndescription = 'x'",
        "approval_policy = 'never'", "[tui]\ntheme = 'x'", "deadline = '30m'", "deadline = 3",
        "approval_policy = {granular = {sandbox_approval=true, rules=true, mcp_elicitations=true}}",
        "[model_providers.x]\nname = 'x'\nwire_api = 'chat'", "[limits]\nagent_memory = 5",
    ],
)  # fmt: skip
def test_what_the_loader_takes_is_valid(text):
    assert is_valid(text)


@pytest.mark.parametrize(
    "text",
    [
        "model = 3", "modl = 'x'", "sandbox_mode = 'bogus'", "[agents]\nmax_depth = 'x'",
        "[agents.scout]\ndescriptio = 'x'", "approval_policy = {granular = {rules = true}}",
        "[limits]\nzzz = 1",
    ],
)  # fmt: skip
def test_what_the_loader_refuses_or_warns_of_is_not_valid(text):
    assert not is_valid(text)


def keys_of_structs():
    """Every key with a fixed name, dotted; names that a person chooses are left out of the path."""
    schema: Any = config_schema()

    def walk(part, prefix):
        for option in part.get("anyOf", [part]):
            name = option.get("$ref", "").rpartition("/")[2]
            table = schema["$defs"].get(name, option)
            chosen = table.get("additionalProperties")
            if isinstance(chosen, dict) and "$ref" in chosen:
                yield from walk(chosen, prefix)
            for key, inner in table.get("properties", {}).items():
                if "Codex; it has no effect" in inner.get("description", ""):
                    continue
                yield key
                yield from walk(inner, f"{prefix}{key}.")

    return set(walk({k: v for k, v in schema.items() if k != "$defs"}, ""))


def test_every_key_that_is_obeyed_is_documented():
    page = re.sub(r"```.*?```", "", PAGE, flags=re.DOTALL)
    spans = re.findall(r"`([^`]+)`", page) + re.findall(r"```.*?```", PAGE, flags=re.DOTALL)
    words = {word for span in spans for word in re.findall(r"\w+", span)}
    assert sorted(keys_of_structs() - words) == []


def test_every_documented_key_is_known():
    section = PAGE.partition("## Supported keys")[2].partition("\n## ")[0]
    rows = _ROW.findall(section)
    assert len(rows) > 15
    for row in rows:
        prefix = ""
        for cell in re.findall(r"`([^`]+)`", row):
            if cell.startswith("["):
                prefix = cell.strip("[]") + "."
                check_key(parse_key(prefix.strip(".")))
            elif "." in cell or not prefix or cell == "deadline":
                check_key(parse_key(cell))
            else:
                check_key(parse_key(prefix + cell))


def test_the_schema_is_one_json_value_and_is_shipped_with_the_package():
    assert msgspec.json.decode(SHIPPED.read_bytes())["additionalProperties"] is False
    table = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    assert "data/*.json" in table["tool"]["setuptools"]["package-data"]["swarm.roles"]
