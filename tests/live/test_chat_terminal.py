"""The conversation on a real terminal, with a scripted model: what stands there, key by key."""

import os
import shutil
import signal

import pytest

from support.chat_play import HOLD, LONG, play, say
from support.mcp_server_program import PIXEL
from support.scripted_team_run import call, calls, says, spawns, waits
from swarm.mailbox.protocol.ops import ImageInput
from swarm.mailbox.protocol.records import InputPosted
from swarm.supervisor.journal.journal_reader import read_records
from swarm.supervisor.runs.paths import find_user_paths, paths_of_run

__all__ = ["play"]

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed"),
]


def test_three_turns_and_quit(play):
    stage = play(
        says("/root", "Hello.\n\n- one\n- two\n\n**Three** is bold.", usage={"input_tokens": 1200}),
        calls("/root", call("exec_command", cmd="printf 'a\\nb\\nc\\n'")),
        says("/root", "It printed three lines."),
        says("/root", "Goodbye."),
    )
    with stage.terminal() as terminal:
        stage.compare("start", terminal)
        say(terminal, "hello")
        terminal.wait("Three is bold.")
        terminal.wait("tokens —")
        say(terminal, "print three lines")
        terminal.wait("It printed three lines.")
        say(terminal, "bye")
        terminal.wait("Goodbye.")
        terminal.wait("Esc stops", gone=True)
        stage.compare("three-turns", terminal)
        say(terminal, "/quit")
        terminal.wait("is ended")
        stage.compare("quit", terminal)


def test_words_steer_the_turn_and_esc_stops_it_and_keeps_the_agent(play):
    stage = play(
        calls("/root", call("exec_command", cmd=HOLD, **LONG)),
        says("/root", "I have read your other words."),
        calls("/root", call("exec_command", cmd="sleep 60")),
        says("/root", "Still here."),
    )
    with stage.terminal() as terminal:
        say(terminal, "begin")
        terminal.wait("Esc stops")
        say(terminal, "and read this too")
        terminal.wait("› and read this too")
        stage.compare("steering", terminal)
        (stage.folder / "go").touch()
        terminal.wait("I have read your other words.")
        terminal.wait("the turn changed")
        say(terminal, "sleep now")
        terminal.wait("$ sleep 60")
        terminal.press("Escape")
        terminal.wait("say how to go on")
        say(terminal, "are you there?")
        terminal.wait("Still here.")
        terminal.wait("Esc stops", gone=True)
        stage.compare("stopped", terminal)


def test_words_wait_in_the_queue_while_the_agent_works(play):
    stage = play(
        calls("/root", call("exec_command", cmd=HOLD, **LONG)),
        says("/root", "The first is done."),
        says("/root", "And the second."),
    )
    with stage.terminal() as terminal:
        say(terminal, "begin")
        terminal.wait("words steer")
        terminal.press("Tab")
        terminal.wait("words queue")
        say(terminal, "then this")
        terminal.wait("queued: then this")
        stage.compare("queue", terminal)
        (stage.folder / "go").touch()
        shown = terminal.wait("And the second.")
        assert shown.index("The first is done.") < shown.index("› then this")


def test_a_question_is_answered_where_one_types(play):
    stage = play(
        calls("/root", call("exec_command", cmd="touch made", justification="it must be there",
                            sandbox_permissions="require_escalated")),
        says("/root", "It is there."),
        calls("/root", call("exec_command", cmd="touch other",
                            sandbox_permissions="require_escalated")),
        says("/root", "Then not."),
    )  # fmt: skip
    stage.options[-1] = "workspace-write"
    with stage.terminal() as terminal:
        say(terminal, "make it")
        terminal.wait("y once")
        stage.compare("approval", terminal)
        terminal.press("y")
        terminal.wait("It is there.")
        assert (stage.folder / "made").exists()
        terminal.wait("the turn changed")
        say(terminal, "and the other")
        terminal.wait("y once")
        terminal.press("n")
        terminal.wait("Then not.")
        assert not (stage.folder / "other").exists()
        stage.compare("approved-and-denied", terminal)


def test_the_tree_of_agents_is_folded_and_one_of_them_can_be_selected(play):
    hold_bob = HOLD.replace("go", "on")
    stage = play(
        calls("/root", *spawns("ann", agent_type="one"), *spawns("bob", agent_type="two")),
        calls("/root", waits("ann", "bob")),
        says("/root", "Both are back."),
        calls("/root/ann", call("exec_command", cmd=f"echo working; {HOLD}", **LONG)),
        calls("/root/bob", call("exec_command", cmd=f"echo also; {hold_bob}", **LONG)),
        says("/root/*", "{agent} was here"),
    )  # fmt: skip
    for role, nickname in (("one", "Ada"), ("two", "Grace")):  # or it is any name of the list
        stage.write_role(role, f'nickname_candidates = ["{nickname}"]')
    with stage.terminal() as terminal:
        say(terminal, "send two")
        terminal.wait("├─ ann")
        terminal.wait("└─ bob")
        terminal.wait("$ echo working; until")
        terminal.wait("$ echo also; until")
        stage.compare("agents", terminal)
        terminal.press("C-Down")
        terminal.wait("/root/ann ›")
        terminal.press("C-t")
        terminal.press("C-t")
        terminal.wait("/root/ann (Ctrl-T: back)")
        stage.compare("agent-transcript", terminal)
        terminal.press("C-t")
        terminal.wait("├─ ann")
        terminal.press("C-Up")
        terminal.wait("/root/ann ›", gone=True)
        (stage.folder / "go").touch()
        terminal.wait("- /root/ann completed")
        (stage.folder / "on").touch()
        terminal.wait("Both are back.")
        terminal.wait("Esc stops", gone=True)
        terminal.wait("+ /root/ann")
        stage.compare("agents-ended", terminal)


def test_a_conversation_is_left_and_comes_back_and_two_may_be_there(play):
    stage = play(
        says("/root", "First answer."),
        says("/root", "Second answer."),
        says("/root", "Third answer."),
    )
    with stage.terminal() as terminal:
        say(terminal, "one")
        terminal.wait("First answer.")
        terminal.wait("Esc stops", gone=True)
        terminal.press("C-c")
        terminal.wait("Ctrl-C again leaves; the run goes on")
        terminal.press("C-c")
        terminal.wait("comes back")
        stage.compare("left", terminal)
    with (
        stage.terminal(stage.run_id(), name="two") as two,
        stage.terminal(stage.run_id(), name="three", command="resume") as three,
    ):
        two.wait("First answer.")
        stage.compare("back", two)
        three.wait("First answer.")
        say(two, "two")
        two.wait("Second answer.")
        three.wait("› two")
        three.wait("Second answer.")
        say(three, "three")
        two.wait("Third answer.")


def test_a_killed_conversation_leaves_the_question_and_the_next_one_answers_it(play):
    stage = play(
        calls("/root", call("exec_command", cmd="touch made",
                            sandbox_permissions="require_escalated")),
        says("/root", "It is there."),
    )  # fmt: skip
    stage.options[-1] = "workspace-write"
    with stage.terminal() as terminal:
        say(terminal, "make it")
        terminal.wait("y once")
        pid = int(terminal.tmux("display-message", "-p", "-t", "play", "#{pane_pid}"))
        os.kill(pid, signal.SIGKILL)
    with (
        stage.terminal(stage.run_id(), name="two") as two,
        stage.terminal(stage.run_id(), name="three") as three,
    ):
        two.wait("y once")
        three.wait("y once")
        two.press("y")
        two.wait("It is there.")
        three.wait("approved by person")
        three.wait("It is there.")
        assert "y once" not in three.text()


def test_what_is_pasted_cannot_hurt_the_terminal_or_the_run(play):
    stage = play(says("/root", "I got it."))
    with stage.terminal() as terminal:
        terminal.paste("x" * 1_000_000)
        terminal.wait("1,000,000 bytes were pasted")
        terminal.paste("\x00\x01\x1b[2J\x1b]0;title\x07\x7fred")
        terminal.wait("are not text")
        terminal.press("C-u")
        terminal.paste("line\n" * 2_000)
        terminal.wait("[pasted 1: 10,000 characters, 2,001 lines]")
        terminal.press("Enter")
        terminal.wait("… 1988 more lines")
        terminal.wait("I got it.")


def test_a_window_may_become_tiny_and_large_again(play):
    stage = play(
        calls("/root", call("exec_command", cmd=f"echo {'wide ' * 30}; {HOLD}", **LONG)),
        says("/root", "Done."),
    )
    with stage.terminal() as terminal:
        say(terminal, "begin")
        terminal.wait("Esc stops")
        columns, rows = stage.size
        terminal.resize(30, rows)
        terminal.wait("Esc stops · words steer (Tab)\n")
        terminal.resize(columns, rows)
        terminal.wait("Esc stops · words steer (Tab) ·")
        terminal.resize(20, 5)
        terminal.wait("Esc stops · words s…")
        terminal.resize(columns, rows)
        (stage.folder / "go").touch()
        terminal.wait("Done.")
        terminal.wait("Esc stops", gone=True)
        say(terminal, "/quit")
        terminal.wait("is ended")


def test_escape_sequences_of_models_and_commands_are_not_obeyed(play):
    evil = "\x1b[2J\x1b]0;owned\x07\x1b[31mred\u202etxt"
    stage = play(
        calls("/root", call("exec_command", cmd="printf '\\033[2J\\033]0;owned\\007here'")),
        says("/root", evil),
    )
    with stage.terminal() as terminal:
        say(terminal, "/no-such")
        terminal.wait("no command /no-such")
        say(terminal, "be evil")
        shown = terminal.wait("⟨ESC⟩[31mred⟨U+202E⟩txt")
        assert "› be evil" in shown
        assert "here" in shown
        assert (
            terminal.tmux("display-message", "-p", "-t", "play", "#{pane_title}").strip() != "owned"
        )


def test_resume_opens_a_conversation_in_which_work_that_was_cut_off_goes_on(play):
    stage = play(
        calls("/root", call("exec_command", cmd="sleep 60")),
        says("/root", "Then it was cut off."),
        says("/root", "I see the picture."),
    )
    with stage.terminal() as terminal:
        say(terminal, "begin")
        terminal.wait("$ sleep 60")
        stage.end()
    with stage.terminal(stage.run_id(), name="two", command="resume") as two:
        two.wait("Then it was cut off.")
        two.wait("Esc stops", gone=True)
        say(two, "/quit")
        two.wait("is ended")
    (stage.folder / "a.png").write_bytes(PIXEL)
    with stage.terminal(stage.run_id(), name="three", command="resume") as three:
        three.wait("Then it was cut off.")
        say(three, "look at a.png")
        three.wait("I see the picture.")
    places = paths_of_run(find_user_paths(stage.environment), stage.run_id())
    *_, posted = (one.body for one in read_records(places) if isinstance(one.body, InputPosted))
    assert [part.name for part in posted.parts if isinstance(part, ImageInput)] == ["a.png"]
