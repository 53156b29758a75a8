"""What is shown piece by piece hides what the whole would hide, wherever it is cut."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.secret_samples import SAMPLES
from swarm.mailbox.base.redact import REDACTED, Redactor
from swarm.mailbox.base.redact_stream import MAX_HELD_CHARS, RedactedStream

KEYS = ("sentinel-7f3a9c", "sentinel-7f3a9c-and-more", "sk-proj-of-this-run-1", "plainwordkey")
SHAPES = (
    "sk-" + "a1" * 10,
    "ghp_" + "b2" * 12,
    "AKIA" + "C3" * 8,
    "hf_" + "d4" * 12,
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl",
    "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\nIBAAKC\n-----END RSA PRIVATE KEY-----",
)
WORDS = ("task-force", "a", "risk", "sk", "gh", "-----", "It is s", "plainword", "eyJ.", "\n", "é")

words = st.lists(st.sampled_from(KEYS + SHAPES + WORDS), max_size=8).map(" ".join)
cuts = st.lists(st.integers(min_value=1, max_value=9), min_size=1, max_size=20)


def cut(text, sizes):
    pieces, ways = [], itertools.cycle(sizes)
    while text:
        size = next(ways)
        pieces.append(text[:size])
        text = text[size:]
    return pieces


def shown(pieces, keys=KEYS):
    stream = RedactedStream(Redactor(keys))
    return [*(stream.push(piece) for piece in pieces), stream.finish()]


@given(words.filter(lambda text: "BEGIN" not in text), cuts)
@settings(max_examples=200)
def test_pieces_show_what_the_whole_shows(text, sizes):
    text += " ."
    expected = Redactor(KEYS).redact(text)
    assert "".join(shown(cut(text, sizes))) == expected


@given(words, cuts)
@settings(max_examples=200)
def test_no_secret_is_ever_shown_whole(text, sizes):
    out = "".join(shown(cut(text, sizes)))
    for secret in (*KEYS, *SHAPES):
        assert secret not in out


samples = st.lists(
    st.sampled_from(
        [one.text for one in SAMPLES] + list(WORDS) + ["\n", "\\n", " ", "x", "https://a"]
    ),
    max_size=6,
).map("".join)


@given(samples, cuts)
@settings(max_examples=400)
def test_no_secret_of_any_rule_is_shown_that_the_whole_would_hide(text, sizes):
    whole = Redactor(KEYS).redact(text)
    out = "".join(shown(cut(text, sizes)))
    for sample in SAMPLES:
        if sample.secret not in whole:
            assert sample.secret not in out, (sample, out, whole)


@given(
    st.sampled_from([one for one in SAMPLES if one.rule != "private-key"]),
    st.text(max_size=20),
    cuts,
)
@settings(max_examples=400)
def test_pieces_show_a_secret_of_any_rule_as_the_whole_does(sample, before, sizes):
    text = f"{before}\n{sample.text} and on."
    assert "".join(shown(cut(text, sizes))) == Redactor(KEYS).redact(text)


@given(st.text(max_size=60), cuts)
@settings(max_examples=200)
def test_ordinary_text_comes_whole_however_it_is_cut(text, sizes):
    text += " ."
    assert "".join(shown(cut(text, sizes))) == Redactor(KEYS).redact(text)


@pytest.mark.parametrize(
    "text",
    ["see https://example.com", "the task-force", "postgres://db", "an API_KEY=", "risk-free"],
)
def test_the_end_shows_what_was_held_back_for_nothing(text):
    assert "".join(shown([text])) == text


@pytest.mark.parametrize("secret", [*KEYS, *SHAPES])
def test_not_even_the_beginning_of_a_secret_is_shown(secret):
    so_far = list(itertools.accumulate(shown(["say: ", *secret, " and on"])))
    assert all("say: ".startswith(text) or text.startswith(f"say: {REDACTED}") for text in so_far)
    assert so_far[-1] == f"say: {REDACTED} and on"


@pytest.mark.parametrize("word", ["plain words pass.", "a line\n", "done: 12 of 30", "x = {1: 2}"])
def test_ordinary_words_pass_as_they_come(word):
    assert shown([word]) == [word, ""]


def test_a_word_that_only_begins_like_a_key_is_shown_once_that_is_known():
    assert shown(["the senti", "ment, the s", "un."]) == ["the ", "sentiment, the ", "sun.", ""]


@pytest.mark.parametrize(
    ("last", "rest"),
    [("the s", "s"), (f"the {KEYS[0][:-1]}", REDACTED), ("token sk-abc123", REDACTED)],
)
def test_the_end_shows_a_few_messages_and_never_most_of_a_key(last, rest):
    assert shown([last])[-1] == rest


def test_a_key_that_is_learned_meanwhile_is_hidden_from_then_on():
    redactor = Redactor(())
    stream = RedactedStream(redactor)
    assert stream.push("late-secret-1 ") == "late-secret-1 "
    redactor.add_secrets("late-secret-1")
    assert stream.push("late-sec") + stream.push("ret-1.") == f"{REDACTED}."


@pytest.mark.parametrize("piece", ["eyJ" + "a" * 500, "x" * 700, "-----BEGIN " + "A" * 300])
def test_what_is_held_back_is_bounded(piece):
    stream = RedactedStream(Redactor(KEYS))
    came = 0
    for _ in range(40):
        came += len(piece)
        stream.push(piece)
        assert len(stream._held) <= MAX_HELD_CHARS


def test_a_key_without_end_hides_all_that_follows_it():
    came = shown(["-----BEGIN PRIVATE KEY-----\n", *(["MIIEowIBAAKC"] * 1000)])
    assert "".join(came) == REDACTED
