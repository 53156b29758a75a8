"""`PROVIDER:MODEL` as people write it, and model names that hold colons."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.mailbox.base.model_reference import (
    InvalidReference,
    read_fallback,
    read_model_name,
    split_reference,
)

KNOWN = ("openai", "ollama", "mine")


@pytest.mark.parametrize(
    ("text", "provider", "model"),
    [
        ("gpt-5", None, "gpt-5"),
        ("openai:gpt-5", "openai", "gpt-5"),
        ("ollama:qwen2.5-coder:7b", "ollama", "qwen2.5-coder:7b"),
        ("qwen2.5-coder:7b", None, "qwen2.5-coder:7b"),
        (" openai:gpt-5 ", "openai", "gpt-5"),
        ("", None, None),
        ("scripted:/a/b.yaml", "scripted:/a/b.yaml", None),
    ],
)
def test_only_a_known_provider_before_the_first_colon_is_one(text, provider, model):
    found = read_model_name(text, KNOWN)
    assert (found.provider, found.model) == (provider, model)


@pytest.mark.parametrize("text", ["opnai:gpt-5", "openai:", "olama:q", "a\x1bb", "x" * 201])
def test_what_is_no_name_says_why(text):
    with pytest.raises(InvalidReference):
        read_model_name(text, KNOWN)


@pytest.mark.parametrize("text", ["", ":", ":m", "openai:", "nobody:m", "qwen:7b", "a\nb"])
def test_an_entry_of_a_list_needs_a_provider_that_is_there(text):
    with pytest.raises(InvalidReference):
        read_fallback(text, KNOWN)


@given(st.sampled_from(KNOWN), st.text("abc:.-7", min_size=1).filter(lambda t: t[-1] != ":"))
def test_a_checked_entry_reads_back_as_it_was(provider, model):
    reference = read_fallback(f"{provider}:{model}", KNOWN)
    assert split_reference(str(reference)) == reference
