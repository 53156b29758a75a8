"""Yield times are clamped as specified, and text is never cut inside a character."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.roles.base.login_shell import find_shell, parse_snapshot
from swarm.worker.exec.exec_outcome import (
    ExecFailed,
    StdinFailed,
    complete_utf8_length,
    exec_yield_s,
    open_sessions_warning,
    write_yield_s,
)


@pytest.mark.parametrize(("given_ms", "waits_s"), [(0, 0.25), (10_000, 10), (99_999, 30)])
def test_an_exec_waits_between_a_quarter_and_thirty_seconds(given_ms, waits_s):
    assert exec_yield_s(given_ms) == waits_s


@pytest.mark.parametrize(
    ("given_ms", "is_poll", "waits_s"),
    [(0, False, 0.25), (40_000, False, 30), (250, True, 5), (60_000, True, 60), (10**9, True, 300)],
)
def test_a_poll_waits_at_least_five_seconds_and_a_write_at_most_thirty(given_ms, is_poll, waits_s):
    assert write_yield_s(given_ms, is_poll=is_poll) == waits_s


def test_a_low_bound_for_polls_is_still_five_seconds():
    assert write_yield_s(9000, is_poll=True, max_poll_ms=10) == 5


@given(st.text(min_size=1), st.integers(0, 60))
def test_a_cut_never_splits_a_character(text, at):
    data = text.encode("utf-8", "ignore")[:at]
    whole = complete_utf8_length(data)
    assert len(data) - whole < 4
    data[:whole].decode()


@given(st.binary(max_size=12))
def test_garbage_is_held_back_by_three_bytes_at_most(data):
    assert len(data) - complete_utf8_length(data) <= 3


def test_the_texts_for_the_model():
    assert str(ExecFailed(("ls", "a b"), "no")) == "exec_command failed for `ls 'a b'`: no"
    assert str(StdinFailed("Unknown process id 7")) == "write_stdin failed: Unknown process id 7"
    assert open_sessions_warning(59) == ""
    assert "currently have 61 processes open" in open_sessions_warning(61)


def test_a_snapshot_begins_after_its_marker_and_drops_the_shells_own_variables():
    printed = b"motd\n\0=swarm environment follows=\0A=1\0B=x=y\nz\0_=/bin/env\0SHLVL=2\0BAD=\xff\0"
    assert parse_snapshot(printed) == {"A": "1", "B": "x=y\nz"}


@pytest.mark.parametrize("printed", [b"", b"A=1\0", b"\0=swarm environment follows=\0A=1"])
def test_a_snapshot_that_is_not_whole_is_none(printed):
    assert parse_snapshot(printed) == {}


def test_a_shell_that_we_cannot_ask_is_replaced():
    assert find_shell({"SHELL": "/usr/bin/fish"}).endswith("sh")
    assert find_shell({"SHELL": "relative/bash"}).startswith("/bin/")
    assert find_shell({"SHELL": "/bin/sh"}) == "/bin/sh"
