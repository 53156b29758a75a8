"""Records as the conversation prints them: what is said and done, and nothing that acts."""

import re

import msgspec
import pytest
from rich.text import Text

from swarm.mailbox.protocol.events import (
    CallBegan,
    CallEnded,
    CommandCall,
    FileChange,
    OtherCall,
    PatchCall,
    PlanCall,
    PlanStep,
    TurnAborted,
    TurnCompleted,
    Warned,
)
from swarm.mailbox.protocol.items import Message, OutputText
from swarm.mailbox.protocol.ops import TextInput
from swarm.mailbox.protocol.records import (
    AgentEnded,
    AgentSpawned,
    InputPosted,
    ItemRecorded,
    Record,
    RunCompleted,
    RunStarted,
)
from swarm.supervisor.clients.chat.chat_transcript import AnswerMarkdown, ChatTranscript
from swarm.supervisor.clients.chat.transcript_printer import TranscriptPrinter

_STYLES = re.compile(r"\x1b\[[0-9;]*m")
PRINTER = TranscriptPrinter(color="never", environment={})


def printed(*bodies, width=60):
    """Bodies of the root, or (path, body)."""
    transcript = ChatTranscript()
    parts = []
    for seq, body in enumerate(bodies, start=1):
        agent, body = body if isinstance(body, tuple) else ("/root", body)
        parts += transcript.add(Record(seq=seq, ts=0.0, agent=agent, body=body))
    return _STYLES.sub("", PRINTER.render(parts, width=width).replace("\r\n", "\n"))


def test_a_persons_words_to_another_agent_stand_in_the_transcript_and_a_tasks_do_not():
    words = InputPosted(input_id="i", parts=(TextInput(text="hello"),), source="person")
    assert printed(("/root/ann", words)).strip().split("\n") == ["to /root/ann:", "", "› hello"]
    task = InputPosted(input_id="i", parts=(TextInput(text="hello"),), source="fan_out")
    assert printed(("/root/ann", task)).strip() == ""


def test_the_first_line_says_which_agents_work_in_copies_and_is_not_there_without_any():
    started = RunStarted(run_id="r", task="prompt", title="t", cwd="/w", version="1")
    assert printed(("", started)) == ""
    isolated = msgspec.structs.replace(started, isolation="the whole run works in a copy")
    assert printed(("", isolated)) == "the whole run works in a copy\n"


def answer(text):
    item = Message(role="assistant", content=(OutputText(text=text),))
    return ItemRecorded(turn_id="t", item_id="m", item=item)


def command(script, **ended):
    return (
        CallBegan(turn_id="t", call_id="c", tool="exec_command",
                  detail=CommandCall(argv=("sh", "-c", script), script=script, cwd="/w")),
        CallEnded(turn_id="t", call_id="c", tool="exec_command",
                  **{"status": "completed", "exit_code": 0, **ended}),
    )  # fmt: skip


def test_words_and_answers():
    said = InputPosted(input_id="i", parts=(TextInput(text="do it\nnow"),))
    answer = ItemRecorded(
        turn_id="t",
        item_id="m",
        item=Message(role="assistant", content=(OutputText(text="**Yes**.\n\n- a"),)),
    )
    text = printed(said, answer, TurnCompleted(turn_id="t", duration_s=2.0))
    assert text == "\n› do it\n  now\n\nYes.\n\n • a\n  — 2.0 s, 0 tokens —\n"


def test_a_command_with_the_ends_of_its_output():
    output = "\n".join(f"line {n}" for n in range(100))
    text = printed(*command("make", output=output))
    assert text.split("\n")[1:] == [
        "• $ make", "  line 0", "  line 1", "  line 2", "  … 94 lines",
        "  line 97", "  line 98", "  line 99", "",
    ]  # fmt: skip


def test_a_failed_command_says_so():
    assert "exit" in printed(*command("false", exit_code=1, status="failed"))


def test_a_patch_is_shown_as_a_diff_with_names_below_the_folder():
    change = FileChange(path="/w/a.py", kind="add", unified_diff="@@ -0,0 +1 @@\n+one\n")
    began = CallBegan(
        turn_id="t", call_id="c", tool="apply_patch", detail=PatchCall(changes=(change,))
    )
    ended = CallEnded(turn_id="t", call_id="c", tool="apply_patch", status="completed")
    spawned = AgentSpawned(path="/root", agent_id="r", epoch=1, pid=1, cwd="/w")
    assert printed(spawned, began, ended).split("\n")[1:] == [
        "• changed A a.py", "  @@ -0,0 +1 @@", "  +one", "",
    ]  # fmt: skip


def test_a_plan_is_a_check_list():
    steps = (
        PlanStep(step="read", status="completed"),
        PlanStep(step="write", status="in_progress"),
        PlanStep(step="test", status="pending"),
    )
    began = CallBegan(turn_id="t", call_id="c", tool="update_plan", detail=PlanCall(plan=steps))
    ended = CallEnded(turn_id="t", call_id="c", tool="update_plan", status="completed")
    assert printed(began, ended) == "\nplan\n  [x] read\n  [>] write\n  [ ] test\n"


def test_a_child_is_one_line_at_its_start_and_one_at_its_end():
    spawned = AgentSpawned(path="/root/ann", agent_id="a", epoch=1, pid=1, role="explorer")
    ended = AgentEnded(agent_id="a", state="completed", message="It is a queue.\nSecond line.")
    text = printed(("/root/ann", spawned), ("/root/ann", ended))
    assert text == "+ /root/ann [explorer] started\n- /root/ann completed: It is a queue.\n"


def test_a_stopped_turn_says_how_to_go_on():
    assert "stopped after 1.0 s" in printed(TurnAborted(turn_id="t", duration_s=1.0))
    assert "say how to go on" in printed(TurnAborted(turn_id="t", duration_s=1.0))


def test_the_end_of_the_run():
    ended = RunCompleted(status="deadline", message="the deadline was reached")
    assert printed(("", ended)) == "\n— the run ended: deadline —\n  the deadline was reached\n"


EVIL = "\x1b[2J\x1b]0;owned\x07[red]x[/red]\u202e\x9b2J"


@pytest.mark.parametrize(
    "bodies",
    [
        (InputPosted(input_id="i", parts=(TextInput(text=EVIL),)),),
        (answer(EVIL),),
        command(EVIL, output=EVIL),
        (("/root/a", AgentEnded(agent_id="a", state="failed", message=EVIL)),),
    ],
)  # fmt: skip
def test_nothing_that_a_model_or_a_command_says_controls_the_terminal(bodies):
    text = printed(*bodies)
    assert "\x1b" not in text
    assert "\x9b" not in text
    assert "\u202e" not in text
    assert "⟨ESC⟩]0;owned⟨BEL⟩" in text, "shown, not deleted"


def test_a_message_is_markdown_and_the_rest_is_text():
    transcript = ChatTranscript()
    item = Message(role="assistant", content=(OutputText(text="# hi"),))
    parts = transcript.add(
        Record(seq=1, ts=0.0, agent="/root", body=ItemRecorded(turn_id="t", item_id="m", item=item))
    )
    assert parts == [Text(), AnswerMarkdown("# hi")]


def test_lines_about_a_command_are_for_the_model_alone():
    head = "Wall time: 0.0088 seconds\nProcess exited with code 0\nOutput:\nhere\n"
    assert printed(*command("ls", output=head)) == "\n• $ ls\n  here\n"


def test_a_team_tool_that_worked_adds_nothing_to_the_lines_about_agents():
    ids = {"turn_id": "t", "call_id": "c", "tool": "spawn_agent"}
    began = CallBegan(**ids, detail=OtherCall(argument="ann: work"))
    assert printed(began, CallEnded(**ids, status="completed", output='{"task_name": "x"}')) == ""
    failed = CallEnded(**ids, status="failed", output="no slot")
    assert "spawn_agent ann: work" in printed(began, failed)


def test_code_stands_between_single_blank_lines():
    text = printed(answer("Look:\n\n```python\nprint(1)\n```\n\nDone."))
    assert text == "\nLook:\n\n print(1)\n\nDone.\n"


def test_an_indented_line_that_is_wrapped_stays_indented():
    text = printed(Warned(message="one two three four"), width=20)
    assert text == "  warning: one two\n  three four\n"
