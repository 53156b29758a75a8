"""Words for a person end their lines between words."""

import pytest

from swarm.supervisor.clients.cli.base.printing import wrap_words

PATH = "/a/very/long/path/that/nobody/should/ever/see/cut/in/two.py"


@pytest.mark.parametrize(
    ("text", "width", "shown"),
    [
        ("swarm: short", 40, "swarm: short"),
        ("swarm: agents work in copies of it", 24, "swarm: agents work in\n  copies of it"),
        (f"swarm: see {PATH} now", 30, f"swarm: see\n  {PATH}\n  now"),
        ("a b\n  c d e f g h i j k l m n o", 20, "a b\n  c d e f g h i j k\n    l m n o"),
        ("swarm: 日本語 日本語 日本語 日本語", 20, "swarm: 日本語 日本語\n  日本語 日本語"),
        ("no terminal reads this", 0, "no terminal reads this"),
    ],
)  # fmt: skip
def test_lines_end_between_words_and_what_can_be_copied_stays_whole(text, width, shown):
    assert wrap_words(text, width) == shown
