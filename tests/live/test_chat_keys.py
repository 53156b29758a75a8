"""Keys of the conversation on a real terminal: sequences, pastes, job control, pages."""

import os
import re
import shlex
import shutil
import signal
from pathlib import Path

import pytest

from support.chat_play import HOLD, LONG, play, say
from support.scripted_team_run import SWARM, call, calls, says
from support.tmux_terminal import TmuxTerminal, open_tmux
from swarm.mailbox.protocol.records import InputPosted
from swarm.supervisor.journal.journal_reader import read_records
from swarm.supervisor.runs.paths import find_user_paths, paths_of_run

__all__ = ["play"]

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed"),
]
SHIFT_ENTER = ("\x1b[13;2u", "\x1b[27;2;13~")
NOISE = ("\x1b[57358u", "\x1b[97;9u", "\x1b[?2026;2$y", "\x1b]11;rgb:0/0/0\x07", "\x1bP1+r=1\x1b\\",
         "\x1b[I", "\x1b[1;1:3A", "\x1bx", "\x1b[999;7~")  # fmt: skip


def sent(stage) -> list[str]:
    """What the person said, message by message."""
    here = paths_of_run(find_user_paths(stage.environment), stage.run_id())
    bodies = [record.body for record in read_records(here)]
    return [part.text for body in bodies if isinstance(body, InputPosted) for part in body.parts]


def conversation_of(stage) -> int:
    """The process of the conversation: the only one with these options."""
    wanted = "\0".join(("chat", *stage.options, ""))
    (found,) = (
        int(file.parent.name) for file in Path("/proc").glob("[0-9]*/cmdline")
        if read_or_nothing(file).endswith(wanted)
    )  # fmt: skip
    return found


def read_or_nothing(file: Path) -> str:
    try:
        return file.read_text()
    except OSError:
        return ""


def raw(terminal: TmuxTerminal, text: str) -> None:
    """Bytes, as a terminal sends them for a key."""
    terminal.tmux("send-keys", "-t", "play", "-H", *(f"{byte:02x}" for byte in text.encode()))


def test_no_sequence_stops_the_turn_and_both_shift_enters_begin_a_line(play):
    stage = play(
        calls("/root", call("exec_command", cmd=HOLD, **LONG)),
        says("/root", "I have read them."),
    )
    with stage.terminal() as terminal:
        say(terminal, "begin")
        terminal.wait("Esc stops")
        for sequence in NOISE:
            raw(terminal, sequence)
        raw(terminal, "\x1b[97u\x1b[98;2u")
        for sequence in SHIFT_ENTER:
            raw(terminal, sequence)
            raw(terminal, "z")
        text = terminal.wait("› aB")
        assert "Esc stops" in text
        assert "say how to go on" not in text
        terminal.press("Enter")
        terminal.wait("› aB", gone=False)
        (stage.folder / "go").touch()
        terminal.wait("I have read them.")
    assert sent(stage)[-1] == "aB\nz\nz"


def test_a_paste_without_brackets_is_one_message(play):
    stage = play(says("/root", "All three."))
    with stage.terminal() as terminal:
        terminal.tmux("load-buffer", "-", text="one\ntwo\nthree")
        terminal.tmux("paste-buffer", "-t", "play")
        terminal.wait("three")
        terminal.press("Enter")
        terminal.wait("All three.")
    assert sent(stage) == ["one\ntwo\nthree"]


def test_persian_and_families_reach_the_model_as_they_were_pasted(play):
    words = "می\u200cخواهم 👨\u200d👩\u200d👧"
    stage = play(says("/root", "Good."))
    with stage.terminal() as terminal:
        terminal.paste(words)
        terminal.press("Enter")
        terminal.wait("Good.")
    assert sent(stage) == [words]


def test_the_conversation_stops_at_ctrl_z_and_goes_on_where_it_was(play):
    stage = play(says("/root", "Hello."), says("/root", "Still here."))
    inside = stage.home / "shell"
    inside.mkdir()
    with open_tmux(inside, ["bash", "--norc", "-i"], stage.environment, stage.size) as terminal:
        line = shlex.join([SWARM, "chat", *stage.options])
        terminal.type(f"cd {shlex.quote(str(stage.folder))} && {line}")
        terminal.press("Enter")
        terminal.wait("/help")
        say(terminal, "hello")
        terminal.wait("Hello.")
        terminal.press("C-z")
        terminal.wait("Stopped")
        terminal.type("echo the-'shell'-answers")
        terminal.press("Enter")
        terminal.wait("the-shell-answers")
        terminal.type("clear; fg")
        terminal.press("Enter")
        terminal.wait("›")
        say(terminal, "are you there?")
        terminal.wait("Still here.")
        os.kill(conversation_of(stage), signal.SIGSTOP)
        terminal.wait("Stopped")
        terminal.type("clear; fg")
        terminal.press("Enter")
        terminal.wait("›")
        terminal.type("typed again")
        terminal.wait("› typed again")


def test_without_colour_nothing_of_the_conversation_is_coloured(play):
    stage = play(says("/root", "Plain."))
    stage.environment["NO_COLOR"] = "1"
    with stage.terminal() as terminal:
        say(terminal, "hello")
        terminal.wait("Plain.")
        drawn = terminal.tmux("capture-pane", "-e", "-p", "-t", "play")
    assert "\x1b[36m" not in drawn
    assert "\x1b[3" not in drawn.replace("\x1b[39m", "")


def test_a_long_question_is_read_to_its_end_before_a_yes_counts(play):
    script = "\n".join([*(f": step {number}" for number in range(60)), "touch made"])
    stage = play(
        calls("/root", call("exec_command", cmd=script, sandbox_permissions="require_escalated")),
        says("/root", "It is there."),
    )
    stage.options[-1] = "workspace-write"
    with stage.terminal() as terminal:
        say(terminal, "make it")
        terminal.wait("before a yes counts")
        assert "| touch made" not in terminal.text()
        terminal.press("y")
        terminal.press("s")
        while "| touch made" not in (shown := terminal.text()):
            page = re.search(r"rows [\d,]+ to", shown)
            assert page is not None
            terminal.press("Space")
            terminal.wait(page[0], gone=True)
        terminal.wait("y once")
        assert not (stage.folder / "made").exists()
        terminal.press("y")
        terminal.wait("It is there.")
        assert (stage.folder / "made").exists()
