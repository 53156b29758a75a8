"""Every key of a valid text is found where it stands, whatever the values around it look like."""

import tomllib

import pytest
import tomlkit
from hypothesis import given
from hypothesis import strategies as st

from swarm.roles.config.key_positions import (
    ANY_KEY,
    TextPosition,
    find_key_positions,
    find_position,
)
from swarm.roles.config.layers.merge import leaves

WORDS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=12)
SCALARS = st.integers(-9, 9) | st.booleans() | WORDS | st.floats(allow_nan=False, width=16)
TABLES = st.recursive(
    st.dictionaries(WORDS, SCALARS | st.lists(SCALARS, max_size=3), max_size=4),
    lambda inner: st.dictionaries(WORDS, inner | SCALARS | st.lists(inner, max_size=2), max_size=3),
    max_leaves=12,
)


@given(TABLES)
def test_every_leaf_of_a_written_table_has_a_place(table):
    text = tomlkit.dumps(table)
    values = tomllib.loads(text)
    places = find_key_positions(text)
    assert {path for path, _ in leaves(values)} <= set(places)
    lines = text.split("\n")
    for place in places.values():
        assert 1 <= place.column <= len(lines[place.line - 1])


@given(st.text(max_size=60))
def test_a_text_that_is_no_toml_harms_nobody(text):
    find_key_positions(text)


TEXT = '''\
a = 1
[b."c.d"]  # x
e = """
[no]
x = 1 ""\\"""""
f = [ 1, # a comment with ] and "
 {g = 2, h.i = 'x'},
]
[[k]]
l = {m = {n = 3}}
t = 1979-05-27 07:32:00 # d
"quoted \\"key\\"" = \'\'\'
not = 'here'\'\'\'\'
u = """a"""""
"\\u00e9" = 1
'''


@pytest.mark.parametrize(
    ("path", "place"),
    [
        (("a",), (1, 1)),
        (("b", "c.d"), (2, 1)),
        (("b", "c.d", "e"), (3, 1)),
        (("b", "c.d", "f"), (6, 1)),
        (("b", "c.d", "f", "g"), (7, 3)),
        (("b", "c.d", "f", "h", "i"), (7, 10)),
        (("k", "l", "m", "n"), (10, 11)),
        (("k", "t"), (11, 1)),
        (("k", 'quoted "key"'), (12, 1)),
        (("k", "u"), (14, 1)),
        (("k", "é"), (15, 1)),
        (("b", "c.d", "none"), (2, 1)),  # the table that it would be in
        (("b", ANY_KEY, "e"), (3, 1)),
        (("none",), None),
        (("not",), None),
        (("no",), None),
    ],
)
def test_a_key_is_found_where_it_stands(path, place):
    tomllib.loads(TEXT)
    assert find_position(find_key_positions(TEXT), path) == (
        None if place is None else TextPosition(*place)
    )
