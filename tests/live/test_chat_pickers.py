"""What is chosen in the conversation instead of typed: models, runs, rights, files."""

import shutil
import subprocess

import pytest

from support.chat_play import HOLD, LONG, play, say
from support.scripted_team_run import call, calls, says
from swarm.mailbox.protocol.records import InputPosted, SettingsChanged
from swarm.supervisor.journal.journal_reader import read_records
from swarm.supervisor.runs.paths import find_user_paths, paths_of_run

__all__ = ["play"]

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed"),
]


def bodies(stage):
    here = paths_of_run(find_user_paths(stage.environment), stage.run_id())
    return [record.body for record in read_records(here)]


def test_enter_sends_a_line_whose_file_was_chosen_from_the_list(play):
    stage = play(says("/root", "I see it."))
    (stage.folder / "orders.py").write_text("pass\n")
    subprocess.run(["git", "init", "-q"], cwd=stage.folder, check=True)
    with stage.terminal() as terminal:
        terminal.type("look at @ord")
        terminal.wait("  orders.py")
        terminal.press("Tab")
        terminal.wait("› look at @orders.py")
        terminal.press("Enter")
        terminal.wait("I see it.")
    inputs = [body for body in bodies(stage) if isinstance(body, InputPosted)]
    assert [part.text for one in inputs for part in one.parts] == ["look at @orders.py"]


def test_a_model_is_chosen_with_arrows_also_before_the_first_words(play):
    stage = play(says("/root", "Hello."), says("/root", "Again."))
    with stage.terminal() as terminal:
        say(terminal, "/model")
        terminal.wait("gpt-oss:20b")
        terminal.press("Down")
        terminal.wait("› /model gpt-oss:20b")
        terminal.press("Enter")
        terminal.wait("your next words go to gpt-oss:20b")
        say(terminal, "hello")
        terminal.wait("Hello.")
        terminal.wait("Esc stops", gone=True)
        terminal.wait("· gpt-oss:20b ·")


def test_rights_are_shown_whole_and_chosen_from_a_list(play):
    stage = play(says("/root", "Ready."))
    stage.options[-1] = "workspace-write"
    with stage.terminal() as terminal:
        say(terminal, "hello")
        terminal.wait("Ready.")
        terminal.wait("Esc stops", gone=True)
        say(terminal, "/permissions")
        terminal.wait("read everything, write nothing")
        text = terminal.wait("the answer comes from")
        for words in ("workspace-write", "network   none", "asks", "/tmp"):
            assert words in text
        terminal.press("Escape")
        terminal.wait("untrusted  ask before", gone=True)
        say(terminal, "/permissions")
        terminal.wait("read everything, write nothing")
        terminal.press("Down")
        terminal.wait("› /permissions read-only")
        terminal.press("Enter")
        terminal.wait("sandbox")
        terminal.wait("› /permissions", gone=True)
        terminal.wait("from its next turn on")
    changed = [body.settings.limits for body in bodies(stage) if isinstance(body, SettingsChanged)]
    assert type(changed[-1].sandbox).__name__ == "ReadOnly"


def test_a_mistyped_command_names_the_one_that_is_meant_and_sends_nothing(play):
    stage = play(says("/root", "Never."))
    with stage.terminal() as terminal:
        say(terminal, "/reviw")
        terminal.wait("did you mean /review?")


def test_whom_words_reach_stands_before_them_and_whether_it_has_ended(play):
    stage = play(
        calls("/root", call("spawn_agent", task_name="ann", message="go", fork_turns="none")),
        says("/root", "Started."),
        calls("/root/ann", call("exec_command", cmd=HOLD, **LONG)),
        says("/root/ann", "Ann is done."),
        says("/root/ann", "Ann heard it."),
    )
    with stage.terminal() as terminal:
        say(terminal, "go")
        terminal.wait("Started.")
        terminal.press("C-Down")
        terminal.wait("/root/ann ›")
        (stage.folder / "go").touch()
        terminal.wait("/root/ann (completed) ›")
        say(terminal, "hi there")
        terminal.wait("to /root/ann:")
        terminal.wait("Ann heard it.")
