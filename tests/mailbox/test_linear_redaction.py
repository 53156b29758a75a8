"""No text makes redaction take longer than its length allows, whatever stands in it."""

import re
import re._parser as sre
from re._constants import MAX_REPEAT, MAXREPEAT, MIN_REPEAT, POSSESSIVE_REPEAT

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from support.linear_time import find_growth
from support.secret_samples import SAMPLES
from swarm.mailbox.base.linear_scan import TextScan
from swarm.mailbox.base.redact import Redactor
from swarm.mailbox.base.redact_rules import KEY_FOOTER, KEY_MATERIAL, load_secret_rules
from swarm.mailbox.base.redact_stream import RedactedStream

RULES = load_secret_rules()
BEGINS = [begin for rule in RULES.tokens for begin in rule.begins]
HINTS = [hint for rule in RULES.after for hint in rule.hints]
FILLERS = [
    "",
    ".",
    "/",
    "-",
    "+",
    "=",
    ":",
    ": ",
    "@",
    '="',
    "\\",
    " ",
    "\n",
    "{",
    "A",
    "a1",
    "a" * 30,
]
ATOMS = [*BEGINS, *HINTS, *FILLERS, "-----BEGIN ", "-----END ", "PRIVATE KEY-----", "://a:{"]
UNIT = st.lists(st.sampled_from(ATOMS), min_size=1, max_size=4).map("".join)
REDACTOR = Redactor(("key-of-the-run-1234",))
SIZE = 12_000


def stream(text):
    output = RedactedStream(REDACTOR)
    return output.push(text) + output.finish()


def repeated(*units):
    """A maker of texts: each unit repeated for a share of the size."""

    def make(size):
        share = size // len(units)
        return "".join((unit * (share // max(1, len(unit)) + 1))[:share] for unit in units)

    return make


@pytest.mark.parametrize("read", [REDACTOR.redact, REDACTOR.redact_error, stream])
@pytest.mark.parametrize(
    "unit", [*BEGINS, *HINTS, *(f"{hint}:" for hint in HINTS), "://:{", "://a:b"]
)
def test_the_beginning_of_any_secret_repeated_costs_linear_time(read, unit):
    assert not find_growth(read, repeated(unit), SIZE)


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda one: one.rule)
def test_any_secret_cut_before_its_end_and_repeated_costs_linear_time(sample):
    for cut in (1, len(sample.text) // 2):
        assert not find_growth(REDACTOR.redact, repeated(sample.text[:-cut]), SIZE)


@given(st.lists(UNIT.filter(bool), min_size=1, max_size=3))
@example(["eyJ"])
@example(["eyJaaaaaaaa.eyJ", "eyJ"])
@example(["TOKEN:"])
@example(["sk_live_aaaaaaaaaaaaaaaa/"])
@example(["-----BEGIN PRIVATE KEY-----"])
@settings(max_examples=60, deadline=None)
def test_text_made_of_parts_of_secrets_costs_linear_time(units):
    for read in (REDACTOR.redact, stream):
        assert not find_growth(read, repeated(*units), SIZE)


def patterns():
    for rule in RULES.after:
        yield from (rule.marker, rule.begins, rule.between, rule.then)
    yield from (KEY_FOOTER.pattern, KEY_MATERIAL.pattern)


def unbounded(tree):
    for operation, details in tree:
        if operation in (MAX_REPEAT, MIN_REPEAT, POSSESSIVE_REPEAT):
            yield details[1] == MAXREPEAT
        for inner in details if isinstance(details, (tuple, list)) else ():
            pieces = inner if isinstance(inner, list) else [inner]
            for piece in pieces:
                if isinstance(piece, sre.SubPattern):
                    yield from unbounded(piece)


@pytest.mark.parametrize("pattern", sorted(set(patterns())))
def test_no_pattern_of_a_rule_repeats_anything_without_a_limit(pattern):
    assert not any(unbounded(sre.parse(pattern)))


@given(st.text("ab1.", max_size=40), st.lists(st.integers(0, 40), max_size=12))
def test_a_scan_finds_the_same_ends_in_whatever_order_it_is_asked(text, places):
    scan = TextScan(text)
    for place in (min(one, len(text)) for one in places):
        for kind in ("ab", "a1"):
            found = re.compile(f"[{kind}]*").match(text, place)
            assert scan.run_end(kind, place) == found.end()
        holds = any(sign.isdigit() for sign in text[place : place + 3])
        assert scan.holds_digit(place, min(place + 3, len(text))) == holds
