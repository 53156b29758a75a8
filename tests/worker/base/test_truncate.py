"""The middle goes, the ends stay, and nothing is cut inside a character."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.mailbox.protocol.items import InputImage, InputText
from swarm.worker.base.truncate import CommandText, truncate_middle, truncate_output

IMAGE = InputImage(image_url="blob:00;image/png")


@pytest.mark.parametrize(
    ("text", "budget", "unit", "expected"),
    [
        ("", 0, "tokens", ""),
        ("abc", 3, "tokens", "abc"),
        ("abcdefgh", 4, "tokens", "ab…1 tokens truncated…gh"),
        ("abcdefgh", 3, "tokens", "a…2 tokens truncated…gh"),
        ("abcdefgh", 4, "chars", "ab…4 chars truncated…gh"),
        ("abcdefgh", 0, "tokens", "…2 tokens truncated…"),
        ("abcdefgh", 0, "chars", "…8 chars truncated…"),
        ("ééééé", 6, "chars", "é…3 chars truncated…é"),  # 3 bytes a side: one whole letter each
        ("😀😀😀😀😀", 8, "tokens", "😀…3 tokens truncated…😀"),
        ("a" * 12, 9, "tokens", "aaaa…1 tokens truncated…aaaaa"),
    ],
)
def test_a_long_text_keeps_its_ends(text, budget, unit, expected):
    assert truncate_middle(text, budget_bytes=budget, unit=unit) == expected


@given(text=st.text(), budget=st.integers(0, 64))
def test_what_is_kept_never_exceeds_the_budget_and_is_always_text(text, budget):
    cut = truncate_middle(text, budget_bytes=budget, unit="chars")
    size = len(text.encode("utf-8", "surrogatepass"))
    if size <= budget:
        assert cut == text
        return
    head, _, rest = cut.partition("…")
    if "…" in text:
        return
    count, _, tail = rest.partition(" chars truncated…")
    assert text.startswith(head)
    assert text.endswith(tail)
    assert len(head) + int(count) + len(tail) == len(text)
    assert len((head + tail).encode("utf-8", "surrogatepass")) <= budget


@pytest.mark.parametrize(("asked", "limit"), [(2, 100), (100, 2)])
def test_a_commands_output_is_cut_once_to_the_lower_of_two_limits(asked, limit):
    text = CommandText(head="H\n", output="one\ntwo\nthree\nfour\n", tail="T", budget_tokens=asked)
    assert truncate_output(text, limit_tokens=limit) == (
        "H\nTotal output lines: 4\n\none\n…3 tokens truncated…our\nT"
    )
    whole = msgspec.structs.replace(text, budget_tokens=100)
    assert truncate_output(whole, limit_tokens=100) == text.whole


def test_parts_share_one_budget_and_images_cost_nothing():
    parts = (InputText(text="a" * 40), IMAGE, InputText(text="b" * 40), InputText(text="c"))
    kept = truncate_output(parts, limit_tokens=10)  # 48 bytes with the slack
    assert isinstance(kept, tuple)
    assert kept[0] == parts[0]
    assert kept[1] == IMAGE
    assert kept[2] == InputText(text="bbbb…8 tokens truncated…bbbb")
    assert kept[3] == InputText(text="[omitted 1 text items ...]")


def test_a_plain_output_gets_the_models_limit_and_a_fifth():
    assert truncate_output("x" * 48, limit_tokens=10) == "x" * 48
    assert truncate_output("x" * 49, limit_tokens=10) != "x" * 49
