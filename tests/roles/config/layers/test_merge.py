"""Merging: table by table, the rest replaced whole; each leaf knows its layer."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.base.quantities import parse_duration
from swarm.roles.config.layers.merge import (
    Layer,
    ValueOrigin,
    get_value,
    leaves,
    merge_layers,
    merge_tables,
    parse_override,
)

TABLES = st.recursive(
    st.dictionaries(st.sampled_from("abc"), st.integers() | st.lists(st.integers()), max_size=3),
    lambda inner: st.dictionaries(st.sampled_from("abc"), inner | st.integers(), max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize(
    ("low", "high", "merged"),
    [
        ({"a": 1}, {"b": 2}, {"a": 1, "b": 2}),
        ({"a": {"x": 1, "y": 2}}, {"a": {"y": 3}}, {"a": {"x": 1, "y": 3}}),
        ({"a": [1, 2]}, {"a": [3]}, {"a": [3]}),
        ({"a": {"x": 1}}, {"a": 5}, {"a": 5}),
        ({"a": 5}, {"a": {"x": 1}}, {"a": {"x": 1}}),
    ],
)
def test_tables_merge_and_all_else_is_replaced(low, high, merged):
    assert merge_tables(low, high) == merged


@given(TABLES, TABLES)
def test_what_the_higher_layer_says_is_what_counts(low, high):
    merged = merge_tables(low, high)
    for leaf in (".".join(path) for path, _ in leaves(high)):
        if get_value(high, leaf) != {}:
            assert get_value(merged, leaf) == get_value(high, leaf)


@given(TABLES)
def test_merging_with_nothing_changes_nothing(table):
    assert merge_tables(table, {}) == table == merge_tables({}, table)


def test_the_origin_of_a_leaf_is_the_highest_layer_that_said_it():
    merged = merge_layers(
        [
            Layer(name="system", source="/etc/c.toml", values={"model": "a", "agents": {"x": 1}}),
            Layer(name="user", values={"model": "b"}),
            Layer(name="project", values={"model": "evil"}, ignored="no trust"),
        ]
    )
    assert merged.values == {"model": "b", "agents": {"x": 1}}
    assert merged.origins == {
        ("model",): ValueOrigin(layer="user"),
        ("agents", "x"): ValueOrigin(layer="system", file="/etc/c.toml"),
    }
    assert merged.origins["agents", "x"] == ValueOrigin(layer="system", file="/etc/c.toml")


@pytest.mark.parametrize(
    ("raw", "table"),
    [
        ("model=gpt-5", {"model": "gpt-5"}),
        ('model="gpt-5"', {"model": "gpt-5"}),
        ("a.b.c=3", {"a": {"b": {"c": 3}}}),
        ("flag = true", {"flag": True}),
        ('roots=["/a","/b"]', {"roots": ["/a", "/b"]}),
        ("key='half", {"key": "half"}),
        ("url=http://x/?a=b", {"url": "http://x/?a=b"}),
        ('projects={"/a.b"={trust_level="trusted"}}',
         {"projects": {"/a.b": {"trust_level": "trusted"}}}),
        ('projects."/p/x.y".trust_level=untrusted',
         {"projects": {"/p/x.y": {"trust_level": "untrusted"}}}),
        ("projects.'/p/x.y' . trust_level = \"untrusted\"",
         {"projects": {"/p/x.y": {"trust_level": "untrusted"}}}),
        ('network.domains."*.x"="allow"', {"network": {"domains": {"*.x": "allow"}}}),
        ('a."b=c\\"d".e==1', {"a": {'b=c"d': {"e": "=1"}}}),
        ("projects./p/x.trust_level=trusted", {"projects": {"/p/x": {"trust_level": "trusted"}}}),
    ],
)  # fmt: skip
def test_an_override_is_toml_or_else_text(raw, table):
    assert parse_override(raw) == table


@pytest.mark.parametrize(
    "raw",
    [
        "model",
        "=x",
        "a..b=1",
        ".a=1",
        'a."b=1',
        'a."b"c=1',
        'a."b=1"',
        "a b=1",
        'a."\\q"=1',
        "[a]=1",
    ],
)
def test_a_malformed_override_is_refused(raw):
    with pytest.raises(UsageError, match=r"override|is not a key"):
        parse_override(raw)


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("90s", 90), ("30m", 1800), ("1h30m", 5400), ("2d", 172800),
                          (45, 45), ("0.5h", 1800)]
)  # fmt: skip
def test_a_span_is_seconds(text, seconds):
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "0", "-3", "soon", "3x", "1h 30m", "9999d", "nan", "inf"])
def test_what_is_no_span_is_refused(text):
    with pytest.raises(UsageError, match="length of time"):
        parse_duration(text)
