"""Make untrusted text (of models, commands, files) visible on a terminal; nothing is ever deleted.

All text from outside the program passes through here before it reaches a terminal or a log line, so
no output can move the cursor, recolour the screen, hide text or start a new line. There are two
ways to show it:

- *prose* (`clean_line`, `clean_block`): what people only read. Controls and invisible signs are
  shown as escapes; joiners between letters and emoji stay, and so do signs of all alphabets.
- *exact* (`exact_line`, `exact_lines`): what a yes depends on. Two different texts never look the
  same: every sign that has no shape of its own, or the shape of another one, is an escape.

An escape is a name or number in mathematical brackets: `⟨ESC⟩`, `⟨U+200B⟩`, `⟨1,300 blanks⟩`,
`a⟨×300⟩`. In exact text the bracket itself is an escape too, so nobody can imitate one.
"""

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from itertools import groupby

_NAMES = {
    0: "NUL", 7: "BEL", 8: "BS", 9: "TAB", 10: "LF", 11: "VT", 12: "FF", 13: "CR", 27: "ESC",
    127: "DEL",
}  # fmt: skip
# Printable for Python, yet blank on a screen: fillers, selectors, a braille blank, a null note.
_BLANK_SIGNS = (
    "\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\ufffc"
    "\U00016fe4\U0001d159\U000e0100-\U000e01ef"
)
_FORMAT_SIGNS = (
    "\u00ad\u0600-\u0605\u061c\u06dd\u070f\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff"
    "\ufff0-\ufffb\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\ud800-\udfff\U000e0000-\U000e00ff"
)
_HIDDEN = re.compile(f"[\x00-\x08\x0b-\x1f\x7f-\x9f{_FORMAT_SIGNS}{_BLANK_SIGNS}]")
_BLANK = re.compile(f"[{_BLANK_SIGNS}]")
_MARKS = re.compile("[\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]")
_FLAG = re.compile("\U0001f3f4[\U000e0030-\U000e0039\U000e0061-\U000e007a]{1,8}\U000e007f")
_BREAKS = re.compile(r"[\s\u2028\u2029]+")
LINE_ENDS = re.compile(r"(?<!\r)\r+\n|[\r\x0b\x0c\x85\u2028\u2029]")
_MOST_SAME, _MOST_SAME_PROSE, _KEPT_SAME = 400, 1_000, 8  # of one sign in a row
_MOST_BLANKS = 40
_MOST_EMPTY_LINES, _MOST_EMPTY_PROSE = 3, 40
_RUN = re.compile(rf"([^\n⟩])\1{{{_MOST_SAME_PROSE},}}")
_EMPTY_RUN = re.compile(rf"\n{{{_MOST_EMPTY_PROSE},}}")
# Letters and signs of other scripts that look like those of ASCII, and have no normal form there.
_TWIN_LETTERS = frozenset(
    "аеорсухіѕјԁԛԝһәвкмнтгзьАВЕЗІЈКМНОРСТУХЅԌԚԜҺЬ"  # Cyrillic
    "αβγεικνορτυωχηΑΒΕΖΗΙΚΜΝΟΡΤΥΧ"  # Greek
    "ցօսոհգքլՍՏՕ"
    "ᎪᏴᏟᎠᎬᎻᎫᏦᏞᎷᏢᎡᏚᎢᏙᎳᏃ"
    "ꓐꓚꓓꓰꓖꓧꓙꓗꓡꓟꓠꓳꓑꓣꓢꓔꓴꓪꓫꓬꓜ"
    "ıɡɑɩʏꞮ"
)
_TWIN_SIGNS = re.compile("[ǀ-ǃʹ-˟‐-―‘-‟․‥′‵‹›⁁⁃⁄⁎⁓⁞∕∖∗∙∣∼∶⎼−─│╱╲❘❙⟋⟍⧵⧸⼁ᆞ꞉꘎]")
_WORD = re.compile(r"[^\W\d_]+")
_TOKEN = re.compile(r"⟨[^⟩]*⟩|.", re.DOTALL)
_TWO_SIDED_CHARS = 40  # shorter lines have no room for a tail


# --- prose ----------------------------------------------------------------------------------------


def clean_line(text: str, *, limit: int = 400) -> str:
    """One line of at most `limit` characters, for reading; white space becomes one blank.

    What is too long keeps its head and its tail. Of a long text only `8 × limit` characters are
    processed, so it costs no more than a short one.
    """
    if len(text) > 8 * limit:
        text = f"{text[: 4 * limit]} … {text[-4 * limit :]}"
    if not (text.isascii() and text.isprintable()) or "  " in text:
        text = _BREAKS.sub(_one_blank, text)
    text = _visible_prose(text).strip()
    if len(text) <= limit:
        return text
    if limit < _TWO_SIDED_CHARS:
        return text[: limit - 1] + "…"
    tail = limit // 3
    return f"{text[: limit - tail - 3]} … {text[-tail:]}"


def clean_block(text: str) -> str:
    """Several lines, for reading: line feeds and tabs stay, a lone carriage return ends a line."""
    if not (text.isascii() and text.isprintable()):
        text = _EMPTY_RUN.sub(lambda run: f"\n⟨{len(run[0]) - 1:,} empty lines⟩\n",
                              LINE_ENDS.sub("\n", text))  # fmt: skip
    return _visible_prose(text)


def first_line(text: str, *, limit: int = 200) -> str:
    """The first non-blank line, cleaned."""
    for line in text[: 8 * limit].splitlines():
        if cleaned := clean_line(line, limit=limit):
            return cleaned
    return ""


def last_line(text: str, *, limit: int = 200) -> str:
    """The last non-blank line, cleaned: the text that is arriving."""
    for line in reversed(text[-8 * limit :].splitlines()):
        if cleaned := clean_line(line, limit=limit):
            return cleaned
    return ""


def is_joined(text: str, index: int) -> bool:
    """True if the sign at `index` belongs to what is written: a joiner, a selector, a flag's tag.

    Joiners count between letters, marks and emoji of which one is not ASCII; the selectors of emoji
    behind a symbol; tags in the flag of a region.
    """
    sign, before = text[index], text[index - 1 : index] if index else ""
    after = text[index + 1 : index + 2]
    if sign in "\u200c\u200d":
        neighbours = before + after
        return len(neighbours) == 2 and not neighbours.isascii() and all(
            unicodedata.category(one)[0] in "LM" or unicodedata.category(one) in {"So", "Sk"}
            for one in neighbours
        ) and before not in "\u200c\u200d"  # fmt: skip
    if sign in "\ufe0e\ufe0f":
        return bool(before) and (before in "#*0123456789" or unicodedata.category(before)[0] == "S")
    if "\U000e0020" <= sign <= "\U000e007f":
        flag = text.rfind("\U0001f3f4", max(index - 9, 0), index)
        found = _FLAG.match(text, flag) if flag >= 0 else None
        return found is not None and found.end() > index
    return False


def _visible_prose(text: str) -> str:
    if not (text.isascii() and text.isprintable()):
        text = _HIDDEN.sub(
            lambda found: found[0] if is_joined(text, found.start()) else escape_sign(found[0]),
            text,
        )
    return _RUN.sub(_counted, text) if len(text) > _MOST_SAME_PROSE else text


def _one_blank(run: re.Match[str]) -> str:
    return " " if len(run[0]) <= _MOST_BLANKS else f" ⟨{len(run[0]):,} blanks⟩ "


def _counted(run: re.Match[str]) -> str:
    return f"{run[1] * _KEPT_SAME}⟨×{len(run[0]):,}⟩"


# --- exact ----------------------------------------------------------------------------------------


def exact_line(text: str) -> str:
    """All of a text on one line. Line ends are escapes, and so are blanks at either end."""
    return _edge_blanks("".join(_exact_signs(text)))


@lru_cache(maxsize=32)
def exact_lines(text: str) -> tuple[str, ...]:
    """All of a text, line by line; a text that ends with a line feed has an empty last line."""
    shown: list[str] = []
    for is_empty, lines in groupby(text.split("\n"), key=lambda line: line == ""):
        group = list(lines)
        if is_empty and len(group) > _MOST_EMPTY_LINES:
            shown.append(f"⟨{len(group):,} empty lines⟩")
        elif is_empty:
            shown += group
        else:
            shown += (_edge_blanks("".join(_exact_signs(line)), at_start=False) for line in group)
    return tuple(shown)


def exact_head(text: str, *, limit: int = 200) -> str:
    """`exact_line`, cut in its middle if it is longer than `limit`: a title, never all that a yes
    needs. The mark counts what is missing.
    """
    shown = exact_line(text)
    if len(shown) <= limit:
        return shown
    signs = _TOKEN.findall(shown)
    head = _fitting(signs, limit * 2 // 3)
    tail = _fitting(signs[::-1], limit - limit * 2 // 3)
    left = len(signs) - head - tail
    return f"{''.join(signs[:head])}⟨… {left:,} more …⟩{''.join(signs[len(signs) - tail :])}"


def escape_sign(sign: str) -> str:
    """`⟨ESC⟩`, `⟨U+200B⟩`."""
    number = ord(sign)
    return f"⟨{_NAMES[number]}⟩" if number in _NAMES else f"⟨U+{number:04X}⟩"


def _fitting(signs: list[str], room: int) -> int:
    for count, sign in enumerate(signs):
        room -= len(sign)
        if room < 0:
            return count
    return len(signs)


def _exact_signs(text: str) -> Iterator[str]:
    """The signs of a text as they are shown; runs of one sign are counted."""
    before, twins = "", _twins(text)
    for sign, run in groupby(text):
        count = sum(1 for _ in run)
        if sign == " ":
            yield " " * count if count <= _MOST_BLANKS else f"⟨{count:,} blanks⟩"
        elif sign in "⟨⟩" or sign in twins or not _has_own_shape(sign, before, repeated=count > 1):
            shown = escape_sign(sign)
            yield shown if count == 1 else f"{shown[:-1]} ×{count:,}⟩"
        else:
            yield sign * count if count <= _MOST_SAME else f"{sign * _KEPT_SAME}⟨×{count:,}⟩"
        before = sign


def _twins(text: str) -> frozenset[str]:
    """The letters of words that could be taken for words in ASCII letters."""
    if text.isascii():
        return frozenset()
    found: set[str] = set()
    for word in _WORD.findall(text):
        foreign = {sign for sign in word if not sign.isascii()} & _TWIN_LETTERS
        if foreign and all(sign.isascii() or sign in _TWIN_LETTERS for sign in word):
            found |= foreign
    return frozenset(found)


def _has_own_shape(sign: str, before: str, *, repeated: bool) -> bool:
    """False for a sign that is invisible, or that looks like another one or changes its neighbour:
    controls, formats, blanks that are no blank, fillers, marks above Latin letters, and all that
    another spelling of the same text (its normal form) would replace.
    """
    if sign.isascii():
        return sign.isprintable()
    if not sign.isprintable() or any(table.match(sign) for table in (_BLANK, _MARKS, _TWIN_SIGNS)):
        return False
    if unicodedata.normalize("NFKC", sign).isascii():
        return False
    pair = before + sign + (sign if repeated else "")
    return unicodedata.is_normalized("NFC", sign) and unicodedata.normalize("NFC", pair) == (
        unicodedata.normalize("NFC", before) + pair[len(before) :]
    )


def _edge_blanks(shown: str, *, at_start: bool = True) -> str:
    """Blanks at the end of a line, which nobody sees, as a count."""
    kept = shown.rstrip(" ")
    if count := len(shown) - len(kept):
        kept += _blanks(count)
    if at_start and (count := len(kept) - len(kept.lstrip(" "))):
        kept = _blanks(count) + kept[count:]
    return kept


def _blanks(count: int) -> str:
    return f"⟨{count} blank{'' if count == 1 else 's'}⟩"
