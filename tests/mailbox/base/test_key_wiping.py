"""Keys are taken out of the environment; what is too short to be one is never wiped."""

import os

from swarm.mailbox.base.key_wiping import take_keys, wipe_secrets


def test_taken_keys_are_gone_from_the_environment_and_unset_ones_are_left_out(monkeypatch):
    monkeypatch.setenv("STORY_API_KEY", "sk-0123456789abcdef")
    taken = take_keys(os.environ, ("STORY_API_KEY", "NOT_SET_API_KEY"))
    assert taken == {"STORY_API_KEY": "sk-0123456789abcdef"}
    assert "STORY_API_KEY" not in os.environ


def test_a_copy_of_the_environment_does_not_keep_the_real_one(monkeypatch):
    monkeypatch.setenv("STORY_API_KEY", "sk-0123456789abcdef")
    copy = dict(os.environ)
    assert take_keys(copy, ("STORY_API_KEY",)) == {"STORY_API_KEY": "sk-0123456789abcdef"}
    assert "STORY_API_KEY" not in copy
    assert "STORY_API_KEY" not in os.environ


def test_what_may_be_somebody_elses_text_is_not_wiped():
    ordinary = ("short", "fifteen-letters", "two words of ordinary text", os.environ["PATH"])
    assert wipe_secrets(ordinary) == 0
