"""Front matter is read as YAML reads it, also where YAML itself is not asked."""

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from swarm.mailbox.base.errors import UsageError
from swarm.roles.base.yaml_table import read_plain_table, yaml_table

NAMES = st.from_regex(r"[A-Za-z][A-Za-z0-9_-]{0,8}", fullmatch=True)
TEXTS = st.text(max_size=20) | st.sampled_from(
    [
        "a: b",
        "a #b",
        "a:",
        "yes",
        "1",
        "~",
        "- a",
        "[a]",
        "'a'",
        '"a"',
        '"a\\n"',
        "a\u2028b",
        "é ü",
        "*a",
    ]
)


@given(st.lists(st.tuples(NAMES, TEXTS), min_size=1, max_size=4))
@example([("a", "x"), ("a", "y")])
@example([("on", "x")])
@example([("a", "N")])
def test_what_is_read_without_yaml_is_what_yaml_reads(lines):
    text = "\n".join(f"{name}: {words}" for name, words in lines)
    plain = read_plain_table(text)
    assert plain is None or plain == yaml.safe_load(text)


@pytest.mark.parametrize(
    "text",
    [
        "name: notes\ndescription: Writes release notes, for us.",
        "name: 'a b'\ndescription: \"Use it: often # always\"",
    ],
)
def test_usual_front_matter_takes_no_yaml(text):
    assert read_plain_table(text) == yaml.safe_load(text)


def test_all_else_is_left_to_yaml_with_its_lines():
    assert yaml_table("a: [1, 2]\nb: yes", first_line=2) == {"a": [1, 2], "b": True}
    with pytest.raises(UsageError, match="line 3: invalid YAML"):
        yaml_table("a: b\nc: ]", first_line=2)
    with pytest.raises(UsageError, match="aliases"):
        yaml_table("a: &x b\nc: *x", first_line=2)
