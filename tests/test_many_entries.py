"""A file with many entries costs its readers as much more as it has entries more.

`test_bounded_readers.py` repeats one unit; here each entry has a name of its own, as readers want
that compare entries with each other, look each one up, or follow what they refer to.
"""

import json
from pathlib import Path

import msgspec
import pytest

from support.linear_time import find_growth
from swarm.mailbox.base.bounded_formats import decode_json_as
from swarm.mailbox.base.bounded_yaml import parse_yaml_text
from swarm.mailbox.base.errors import SwarmError
from swarm.mailbox.base.schema_check import find_violation, open_validator
from swarm.roles.config.file_reading import parse_toml
from swarm.roles.config.layers.config_loader import load_config
from swarm.roles.config.layers.merge import Layer
from swarm.roles.parts.hooks.hook_file import read_hook_json
from swarm.roles.parts.plugins.files.marketplace_file import read_marketplace
from swarm.supervisor.clients.cli.base.effective_config import effective_rows
from swarm.supervisor.parts.fan_out.fan_out_items import parse_csv
from swarm.worker.gateway.fit.tool_schemas import fit_schema
from swarm.worker.parts.patch.parse import parse_patch

SIZE = 400
REFUSALS = (SwarmError, ValueError, msgspec.MsgspecError)


def entries(form, before="", after="", *, between=""):
    return lambda n: before + between.join(form.replace("#", str(k)) for k in range(n)) + after


def chain(n):
    """Each part refers to the next one twice."""
    parts = {
        f"d{k}": {"allOf": [{"$ref": f"#/$defs/d{k + 1}"}, {"$ref": f"#/$defs/d{k + 1}"}]}
        for k in range(n)
    }
    parts[f"d{n}"] = {"type": "string"}
    return json.dumps({"$ref": "#/$defs/d0", "$defs": parts})


def flat(n):
    defs = {f"d{k}": {"type": "string"} for k in range(n)}
    refs = {f"p{k}": {"$ref": f"#/$defs/d{k}"} for k in range(n)}
    return json.dumps({"type": "object", "properties": refs, "$defs": defs})


def configure(text):
    """Two layers with the same keys, as a person's and a project's, and what is shown of them."""
    values = parse_toml(text, Path("x.toml"))
    layers = [Layer(name=name, source=f"/{name}.toml", values=values, text=text) for name in "ab"]
    effective_rows(load_config(layers, lenient=True))


def validate(text):
    find_violation("x", open_validator(decode_json_as(text, dict[str, object]), linear=True))


def fit(text):
    fit_schema(text.encode(), is_plain=True)


def hooks(text):
    read_hook_json(text.encode(), "x", form="codex")


def marketplace(text):
    read_marketplace(text.encode(), path="x")


def csv_rows(text):
    parse_csv(text, Path("x.csv"))


HOOK = '{"hooks": [{"type": "command", "command": "c#"}]}'
PLUGIN = '{"name": "p#", "source": "./p#"}'
PATCH = "*** Update File: f#\n@@\n-a#\n+b#\n"
READERS = {
    "keys that nobody knows": (configure, entries("k# = 1\n")),
    "tables that nobody knows": (configure, entries("[t#]\na = 1\n")),
    "keys in one table": (configure, entries("k# = 'v'\n", "[shell_environment_policy.set]\n")),
    "providers": (configure, entries('[model_providers.p#]\nname = "x"\nbase_url = "u"\n')),
    "MCP servers": (configure, entries('[mcp_servers.s#]\ncommand = "x"\n')),
    "roles": (configure, entries('[agents.r#]\ndescription = "x"\n')),
    "profiles of permissions": (configure, entries("[permissions.p#]\n")),
    "hooks": (hooks, entries(HOOK, '{"hooks": {"Stop": [', "]}}", between=",")),
    "plugins of a marketplace": (
        marketplace, entries(PLUGIN, '{"name": "m", "plugins": [', "]}", between=",")
    ),
    "keys of YAML": (parse_yaml_text, entries("k#: v\n")),
    "columns of a table": (csv_rows, entries("c#", after="\n", between=",")),
    "rows of a table": (csv_rows, entries("a#,b\n", "item,b\n")),
    "files of a patch": (parse_patch, entries(PATCH, "*** Begin Patch\n", "*** End Patch\n")),
    "a schema's properties": (validate, flat),
    "a schema's parts, each with two references": (validate, chain),
    "a tool's properties": (fit, flat),
    "a tool's parts, each with two references": (fit, chain),
}  # fmt: skip


@pytest.mark.parametrize("reader", READERS)
def test_many_entries_take_linear_time(reader):
    read, make = READERS[reader]
    assert not find_growth(read, make, SIZE, expected=REFUSALS), reader


def test_of_many_unknown_keys_twenty_are_named_and_the_others_counted():
    text = "".join(f"k{number} = 1\n" for number in range(1_000))
    values = parse_toml(text, Path("x.toml"))
    found = load_config([Layer(name="p", source="/x.toml", values=values, text=text)])
    assert len(found.warnings) == 21
    assert "/x.toml, line 20, k19: unknown key" in found.warnings[19]
    assert found.warnings[20] == "/x.toml: 980 more unknown keys"


def test_a_table_of_too_many_rows_is_refused_before_it_is_held():
    with pytest.raises(SwarmError, match="more than 20,000 rows"):
        csv_rows("item\n" + "a\n" * 30_000)
