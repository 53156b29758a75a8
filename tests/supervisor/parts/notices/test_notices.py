"""How often a person is told, and in what form; no text leaves its place in it."""

import json
import os
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.mailbox.parts.notices.notice_messages import NoticeBegan
from swarm.supervisor.parts.notices.http_sink import find_proxy
from swarm.supervisor.parts.notices.notice_content import RunNotice, cut_to_notice
from swarm.supervisor.parts.notices.notice_history import NoticePast
from swarm.supervisor.parts.notices.notice_limits import refusal_at


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ([], ""),
        ([990.0] * 4, ""),
        ([400.0, *[990.0] * 4], ""),
        ([500.0, *[990.0] * 4], "in 100 s"),
        ([2_000.0] * 9, ""),
        ([990.0] * 5, "5 notices in 10 minutes"),
    ],
)
def test_the_limits_count_what_lies_in_their_span(told, words):
    refusal = refusal_at(1_000.0, told)
    assert (words in refusal) if words else refusal == ""


def test_limits_hold_over_a_resume_and_for_each_kind_alone():
    past = NoticePast()
    for _ in range(5):
        past.take(990.0, NoticeBegan(notice_id="1", text="x"))
    assert past.refusal_now("agent", 1_000.0)
    assert not past.refusal_now("question", 1_000.0)
    assert not past.is_end_told
    past.take(991.0, NoticeBegan(notice_id="2", text="x", kind="end"))
    assert past.is_end_told


def notice(text: str) -> RunNotice:
    return RunNotice(NoticeBegan(notice_id="n", text=text, urgency="high"), "12ab34cd")


@given(st.text(max_size=200))
def test_no_text_ends_its_sequence_at_a_terminal(text):
    said = notice(cut_to_notice(text)).for_terminal()
    assert said.count(b"\a") == 3
    assert said.count(b"\x1b") == 2
    assert said.count(b";") == 4


@given(st.text(max_size=400))
def test_a_notice_is_one_line_of_200_characters_in_every_form(text):
    cut = cut_to_notice(text)
    assert len(cut) <= 200
    assert len(cut.splitlines()) <= 1
    assert json.loads(notice(cut).as_json())["text"] == cut
    assert all(value.isascii() for value in notice(cut).for_ntfy().values())


def test_a_text_is_no_option_and_no_markup_of_the_desktop():
    argv = notice("--help <b>&").for_desktop("notify-send")
    assert argv[argv.index("--") + 2] == "--help &lt;b&gt;&amp;"


@pytest.mark.parametrize(
    ("variables", "proxy"),
    [
        ({}, ""),
        ({"https_proxy": "http://p:1"}, "http://p:1"),
        ({"HTTPS_PROXY": "http://p:1", "no_proxy": "ntfy.sh"}, ""),
        ({"all_proxy": "http://p:1", "no_proxy": ".sh"}, ""),
        ({"all_proxy": "http://p:1", "no_proxy": "fy.sh"}, "http://p:1"),
        ({"http_proxy": "http://p:1"}, ""),
        ({"https_proxy": "http://p:1", "no_proxy": "*"}, ""),
    ],
)
def test_the_proxies_of_the_terminal_are_used(variables, proxy):
    assert find_proxy("https://ntfy.sh/topic", variables) == proxy


RING = """
import fcntl, os, termios
os.setsid()
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
from swarm.supervisor.parts.notices.terminal_sink import ring
ring(b"\\a said")
"""


def test_the_terminal_of_the_run_gets_it():
    master, slave = os.openpty()
    try:
        subprocess.run([sys.executable, "-c", RING], stdin=slave, check=True, timeout=60)
        assert os.read(master, 100) == b"\a said"
    finally:
        os.close(master)
        os.close(slave)
