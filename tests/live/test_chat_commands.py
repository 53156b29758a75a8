"""Commands of the conversation on a real terminal: files taken back, plan mode, wider rights."""

import shutil

import pytest

from support.chat_play import play, say
from support.scripted_team_run import call, calls, says

__all__ = ["play"]

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed"),
]


def test_files_are_taken_back_and_an_ended_run_goes_on(play):
    patch = "*** Begin Patch\n*** Add File: new.txt\n+one\n+two\n*** End Patch"
    stage = play(
        {"agent": "/root", "calls": [{"name": "apply_patch", "custom": True, "arguments": patch}]},
        says("/root", "Written."),
        says("/root", "Here again."),
    )
    with stage.terminal() as terminal:
        say(terminal, "write")
        terminal.wait("Written.")
        terminal.wait("Esc stops", gone=True)
        stage.compare("patch", terminal)
        say(terminal, "/diff")
        terminal.wait("+++ b/new.txt")
        assert (stage.folder / "new.txt").exists()
        say(terminal, "/undo")
        terminal.wait("y yes · n no")
        stage.compare("undo", terminal)
        terminal.press("n")
        terminal.wait("nothing was taken back")
        assert (stage.folder / "new.txt").exists()
        say(terminal, "/undo")
        terminal.wait("y yes · n no")
        terminal.press("y")
        terminal.wait("put back 1 file")
        assert not (stage.folder / "new.txt").exists()
        stage.swarm("kill", stage.run_id())
        terminal.wait("the run ended")
        say(terminal, "go on")
        terminal.wait("Here again.")


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="copies need bubblewrap")
def test_what_an_agent_changed_in_its_copy_is_shown_and_merged_after_a_yes(play):
    spawn = call("spawn_agent", task_name="mason", message="go", fork_turns="none")
    stage = play(
        calls("/root", {**spawn, "arguments": {**spawn["arguments"], "isolation": "copy"}}),
        calls("/root", call("wait_agent", targets=["mason"], timeout_ms=30_000)),
        says("/root", "Done."),
        calls("/root/mason", call("exec_command", cmd="echo one > new.txt")),
        says("/root/mason", "Written."),
    )
    stage.options[-1] = "workspace-write"
    with stage.terminal() as terminal:
        say(terminal, "write")
        terminal.wait("Done.")
        terminal.wait("Esc stops", gone=True)
        for key, words in (("n", "nothing was merged"), ("y", "merged; to take it back")):
            say(terminal, "/merge mason")
            terminal.wait("y yes · n no")
            assert not (stage.folder / "new.txt").exists()
            terminal.press(key)
            terminal.wait(words)
        assert (stage.folder / "new.txt").read_text() == "one\n"
        say(terminal, "/merge")
        terminal.wait("there is nothing to merge")


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="copies need bubblewrap")
def test_a_conversation_in_a_copy_says_so_in_its_first_line(play):
    stage = play(says("/root", "Hello."))
    stage.options[-1] = "workspace-write"
    (stage.home / "s").mkdir(exist_ok=True)
    with (stage.home / "s" / "config.toml").open("a") as file:
        file.write('isolation = "run"\n')
    with stage.terminal() as terminal:
        say(terminal, "hello")
        terminal.wait("Hello.")
        terminal.wait("the whole run works in a copy")


def test_what_is_remembered_is_listed_and_searched(play):
    stage = play(says("/root", "Hello."))
    for note in ("Redis must run first.", "Keep it small."):
        stage.swarm("memory", "add", note, "-C", str(stage.folder))
    with stage.terminal() as terminal:
        say(terminal, "/memory")
        terminal.wait("Keep it small.")
        terminal.wait("Redis must run first.")
        say(terminal, "hello")
        terminal.wait("Hello.")
        say(terminal, "/memory small things")
        terminal.wait("[yours, 0 d]")


def test_a_plan_is_made_first_and_carried_out_after_a_yes(play):
    stage = play(
        calls("/root", call("exec_command", cmd="touch early")),
        says("/root", "First this, then that."),
        calls("/root", call("exec_command", cmd="touch made")),
        says("/root", "Carried out."),
    )
    stage.options[-1] = "workspace-write"
    with stage.terminal() as terminal:
        say(terminal, "/plan think of something")
        terminal.wait("/accept carries the plan out")
        stage.compare("plan", terminal)
        assert not (stage.folder / "early").exists()
        say(terminal, "/accept but carefully")
        terminal.wait("› but carefully")
        terminal.wait("Carried out.")
        assert (stage.folder / "made").exists()
        terminal.wait("plan mode ·", gone=True)


def test_rights_are_widened_only_after_a_yes(play):
    stage = play(says("/root", "Ready."), says("/root", "Again."))
    stage.options[-1] = "read-only"
    with stage.terminal() as terminal:
        say(terminal, "hello")
        terminal.wait("Ready.")
        terminal.wait("Esc stops", gone=True)
        say(terminal, "/permissions workspace-write")
        terminal.wait("Give /root more rights: workspace-write?")
        terminal.press("n")
        terminal.wait("its rights stay as they are")
        say(terminal, "/permissions workspace-write")
        terminal.wait("y yes · n no")
        terminal.press("y")
        terminal.wait("/root from its next turn on: sandbox workspace-write")


def test_resume_offers_the_runs_of_this_project_with_what_they_are_about(play):
    stage = play(says("/root", "First answer."), says("/root", "Second answer."))
    with stage.terminal() as terminal:
        say(terminal, "count the files")
        terminal.wait("First answer.")
        terminal.wait("Esc stops", gone=True)
        say(terminal, "/detach")
        terminal.wait("comes back")
    with stage.terminal(name="two") as terminal:
        terminal.wait("›")
        terminal.type("/resume ")
        terminal.wait("at work: count the files")
        terminal.press("Tab")
        terminal.wait(f"/resume {stage.run_id()[-8:]}")
        terminal.press("Enter", "Enter")  # takes the completion, sends the line
        terminal.wait("First answer.")
        say(terminal, "more")
        terminal.wait("Second answer.")
