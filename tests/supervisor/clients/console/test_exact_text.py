"""What a yes depends on is shown so that no two texts, and no two requests, look the same."""

import re
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from swarm.mailbox.protocol.approvals import (
    ApprovalRequest,
    CommandAction,
    ExtraPermissions,
    McpToolAction,
    NetworkAction,
    PatchAction,
    PermissionsAction,
)
from swarm.mailbox.protocol.changes import FileChange
from swarm.mailbox.protocol.elicitation import ElicitationAction
from swarm.mailbox.protocol.server_sampling import SamplingAction, SamplingTurn
from swarm.supervisor.base.safe_text import (
    clean_block,
    clean_line,
    exact_head,
    exact_line,
    exact_lines,
)
from swarm.supervisor.clients.console.line_folding import fold_lines
from swarm.supervisor.views.approval_description import approval_detail_lines, describe_action

# Signs that hide, move, join, imitate or fill; and some that anyone writes.
NASTY = (
    "a b\n\t\r\x00\x07\x1b\x9b\x7f⟨⟩×|: ,;.→·…"
    "\u00a0\u00ad\u034f\u061c\u115f\u1160\u17b4\u180b\u180e\u2000\u2007\u200b\u200c\u200d\u200e"
    "\u2028\u2029\u202a\u202e\u2060\u2066\u2069\u2800\u3000\u3164\ufe0e\ufe0f\ufeff\uffa0\ufff9"
    "\ufffc\U000e0041\U000e007f\U000e0101\U0001d159\U0001d173\ue000\u0378\ud800"
    "e\u0301é\u212aKÅÅаоО−-‐/∕⁄；;ｇ²ﬁ漢👩"
)
TEXTS = st.text(alphabet=NASTY, max_size=12) | st.text(max_size=12)
LONG = st.builds(
    lambda head, sign, count, tail: head + sign * count + tail,
    TEXTS, st.sampled_from(" \n\ta=\u200b."), st.integers(0, 1_500), TEXTS,
)  # fmt: skip
ESCAPE = re.compile(r"(.)?⟨(?:(\w+|U\+[0-9A-F]+)(?: ×([\d,]+))?|([\d,]+) blanks?|×([\d,]+))⟩", re.S)
NAMES = {"NUL": 0, "BEL": 7, "BS": 8, "TAB": 9, "LF": 10, "VT": 11, "FF": 12, "CR": 13,
         "ESC": 27, "DEL": 127}  # fmt: skip


def number(text: str | None) -> int:
    return int((text or "1").replace(",", ""))


def decoded(shown: str) -> str:
    """The text that an exact line stands for: that it can be read back is why none is alike."""
    out, at = "", 0
    for found in re.finditer(r"⟨([^⟩]*)⟩", shown):
        out += shown[at : found.start()]
        at = found.end()
        word, _, count = found[1].partition(" ")
        if word.startswith("×"):
            out += out[-1] * (number(word[1:]) - 8)
        elif count.startswith("blank"):
            out += " " * number(word)
        else:
            sign = chr(NAMES[word] if word in NAMES else int(word[2:], 16))
            out += sign * number(count.removeprefix("×"))
    return out + shown[at:]


@given(TEXTS | LONG)
def test_an_exact_line_can_be_read_back_and_has_no_sign_without_a_shape(text):
    shown = exact_line(text)
    assert decoded(shown) == text
    assert shown.isprintable()
    assert not shown.startswith(" ")
    assert not shown.endswith(" ")
    assert unicodedata.is_normalized("NFC", shown)


@given(TEXTS | LONG)
def test_exact_lines_can_be_read_back(text):
    lines: list[str] = []
    for line in exact_lines(text):
        empty = re.fullmatch(r"⟨([\d,]+) empty lines⟩", line)
        lines += [""] * number(empty[1]) if empty else [decoded(line)]
    assert "\n".join(lines) == text


@given(LONG)
def test_a_cut_is_counted_and_keeps_head_and_tail(text):
    shown, whole = exact_head(text, limit=60), exact_line(text)
    if shown != whole:
        head, mark, tail = re.fullmatch(r"(.*)⟨… ([\d,]+) more …⟩(.*)", shown, re.S).groups()
        assert number(mark) > 0
        assert whole.startswith(head)
        assert whole.endswith(tail)
        assert len(head) + len(tail) <= 60


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("git status", "git status #\x1b]0;\nid>X\n#\x07"),
        ("cat a", "cаt a"),
        ("сору", "copy"),
        ("rm -rf x", "rm −rf x"),
        ("café", "cafe\u0301"),
        ("a b", "a\u00a0b"),
        ("a b", "a\u3164b"),
        ("ab", "a\u200db"),
        ("ab", "a\ufe0fb"),
        ("ab", "a\u2800b"),
        ("a", "a "),
        ("a;b", "a\u037eb"),
        ("k", "\u212a"),
        ("\x1b", "⟨ESC⟩"),
        ("👩\u200d👩", "👩👩"),
        ("می\u200cخواهم", "میخواهم"),
    ],
)
def test_texts_that_look_alike_are_told_apart_by_an_escape(one, other):
    assert exact_line(one) != exact_line(other)
    assert "⟨" in exact_line(one) + exact_line(other)


@pytest.mark.parametrize(
    "text",
    ["привет, мир", "λόγος", "漢字 かな 한국어", "هذا نص", "हिन्दी", "naïve café", "a | b > c && d"],
)
def test_what_people_write_stays_as_it_is(text):
    assert exact_line(text) == clean_line(text) == clean_block(text) == text


@pytest.mark.parametrize(
    "text",
    ["می\u200cخواهم", "ක්\u200dෂ", "👨\u200d👩\u200d👧", "❤\ufe0f", "1\ufe0f\u20e3",
     "🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f"],
)  # fmt: skip
def test_prose_keeps_what_joins_letters_and_emoji(text):
    assert clean_line(text) == clean_block(text) == text
    assert "⟨U+" in exact_line(text), "whatever a yes covers shows every one"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\u200db", "a⟨U+200D⟩b"),
        ("x\U000e0041\U000e0042", "x⟨U+E0041⟩⟨U+E0042⟩"),
        ("x\ufe01", "x⟨U+FE01⟩"),
        ("a\u3164b\u00adc", "a⟨U+3164⟩b⟨U+00AD⟩c"),
        ("a" + " " * 1_300 + "b", "a ⟨1,300 blanks⟩ b"),
        ("=" * 2_000, "========⟨×2,000⟩"),
    ],
)
def test_prose_shows_what_is_hidden_and_counts_what_is_long(text, shown):
    assert clean_line(text) == shown


def test_a_line_of_prose_that_is_too_long_keeps_its_tail():
    shown = clean_line("begin " + "word " * 5_000 + "end", limit=100)
    assert len(shown) <= 100
    assert shown.startswith("begin ")
    assert shown.endswith("end")


WORDS = st.text(alphabet="a \n|:⟨\x1b'\"", max_size=5)
PATHS = st.builds("/{}".format, st.text(alphabet="a/ ,;\n→\u200b", max_size=4))
CHANGES = st.builds(
    FileChange, path=PATHS, kind=st.sampled_from(["add", "delete", "update"]),
    unified_diff=st.builds("@@ -1 +1 @@\n{}\n".format, WORDS), move_path=st.none() | PATHS,
)  # fmt: skip
EXTRAS = st.builds(
    ExtraPermissions, network=st.booleans(), read=st.lists(PATHS, max_size=2).map(tuple),
    write=st.lists(PATHS, max_size=2).map(tuple),
)  # fmt: skip
FURTHER = EXTRAS.filter(lambda extra: extra != ExtraPermissions())  # an empty one asks for nothing
ACTIONS = st.one_of(
    st.builds(
        CommandAction, argv=st.lists(WORDS, min_size=1, max_size=3).map(tuple), cwd=PATHS,
        script=WORDS, tty=st.booleans(), sandboxed=st.booleans(), extra=st.none() | FURTHER,
        resolved_cwd=st.just("") | PATHS, commits_in=st.just("") | PATHS,
    ),
    st.builds(
        PatchAction, cwd=st.just("/"), files=st.just(()),
        changes=st.lists(CHANGES, max_size=3).map(tuple),
    ),
    st.builds(
        NetworkAction, host=st.sampled_from(["a", "b.c"]), port=st.integers(1, 3),
        protocol=st.sampled_from(["http", "https"]), trigger=WORDS,
    ),
    st.builds(McpToolAction, server=st.sampled_from(["a", "b"]), tool=WORDS, arguments=WORDS),
    st.builds(PermissionsAction, permissions=EXTRAS),
    st.builds(
        SamplingAction, server=st.just("s"), system=WORDS,
        turns=st.lists(
            st.builds(SamplingTurn, role=st.sampled_from(["user", "assistant"]), text=WORDS),
            max_size=2,
        ).map(tuple),
    ),
    st.builds(ElicitationAction, server=st.just("s"), message=WORDS, url=WORDS),
)  # fmt: skip


def looks(action) -> tuple[str, ...]:
    request = ApprovalRequest(action=action, cause="rule")
    return (describe_action(action), *approval_detail_lines(request))


@st.composite
def neighbours(draw):
    """Two actions of which one differs from the other in one field, or in all."""
    one, other = draw(ACTIONS), draw(ACTIONS)
    fields = [name for name in one.__struct_fields__ if hasattr(other, name)]
    if type(one) is type(other):
        name = draw(st.sampled_from(fields))
        return one, draw(st.sampled_from([other, replace(one, **{name: getattr(other, name)})]))
    return one, other


@settings(max_examples=1_000)
@given(neighbours())
def test_two_different_requests_never_look_the_same(pair):
    one, other = pair
    if one != other:
        assert looks(one) != looks(other)
        assert fold_lines(looks(one), 24) != fold_lines(looks(other), 24)


def test_the_ninth_file_and_the_end_of_a_long_diff_are_shown():
    diff = (
        "@@ -0,0 +1,900 @@\n" + "".join(f"+line {count}\n" for count in range(900)) + "+curl evil\n"
    )
    changes = tuple(
        FileChange(path=f"/p/{count}", kind="add", unified_diff=diff) for count in range(9)
    )
    shown = looks(PatchAction(cwd="/p", files=("/p/0", "/etc/cron.d/x"), changes=changes))
    assert "A /p/8" in shown
    assert shown.count("| +curl evil") == 9
    assert "it really writes: /etc/cron.d/x" in shown
