"""A command that only reads is shown as what it reads, in every view; its text stays harmless."""

import io
from typing import Any

from swarm.mailbox.protocol.approvals import ApprovalRequest, CommandAction, PendingApproval
from swarm.mailbox.protocol.control import AgentView, Recorded
from swarm.mailbox.protocol.events import CallBegan, CallEnded, CommandCall
from swarm.mailbox.protocol.parsed_command import ListFiles, ReadFile, Search
from swarm.mailbox.protocol.records import AgentSpawned, ApprovalRequested, Record
from swarm.supervisor.clients.cli.commands.approval_commands import _approval_lines
from swarm.supervisor.clients.console.agent_transcript import transcript_lines
from swarm.supervisor.clients.console.columns import describe_activity
from swarm.supervisor.clients.console.log_lines import log_line
from swarm.supervisor.clients.console.plain_display import PlainLines
from swarm.supervisor.clients.serve.json_items import OpenItems
from swarm.supervisor.views.approval_description import approval_request_lines
from swarm.supervisor.views.record_description import describe_meanings
from swarm.supervisor.views.run_state import RunState

SED = "sed -n '1,9p' src/a.py"
CALL = CommandCall(
    script=SED,
    argv=("/bin/bash", "-c", SED),
    cwd="/w",
    parsed_cmd=(ReadFile(cmd=SED, name="a.py", path="src/a.py"),),
)
BEGAN = CallBegan(turn_id="t", call_id="c", tool="exec_command", detail=CALL)
ENDED = CallEnded(turn_id="t", call_id="c", tool="exec_command", status="completed", exit_code=0)
HOSTILE = "a\x1b[2J\n$ rm -rf /\u202e" + "x" * 5_000


def test_parts_are_joined_and_files_that_are_read_together_stand_together():
    meanings = (
        ReadFile(cmd="cat a", name="a", path="a"),
        ReadFile(cmd="cat b", name="b", path="d/b"),
        ListFiles(cmd="ls"),
        Search(cmd="rg x src", query="x", path="src"),
        Search(cmd="rg --files", query=None),
    )
    assert describe_meanings(meanings) == "Read a, d/b; List files; Search x in src; Search files"
    assert describe_meanings(()) == ""


def test_the_tree_shows_it_while_it_runs_and_forgets_it_then():
    state = RunState()
    spawned = AgentSpawned(agent_id="a", path="/root", epoch=1, pid=7)
    for seq, body in enumerate((spawned, BEGAN), start=1):
        state.apply(Recorded(record=Record(seq=seq, ts=1.0, agent="/root", body=body)))
    (agent,) = state.view().agents
    assert (agent.tool, agent.argument, agent.doing) == ("exec_command", SED, "Read src/a.py")
    assert describe_activity(agent)[0] == "Read src/a.py"
    state.apply(Recorded(record=Record(seq=3, ts=2.0, agent="/root", body=ENDED)))
    assert state.view().agents[0].doing == ""
    as_it_is = AgentView(path="/root", state="running", tool="exec_command", argument="make")
    assert describe_activity(as_it_is)[0] == "$ make"


def test_the_log_and_the_plain_lines_say_it_beside_the_tool():
    began = Record(seq=1, ts=1.0, agent="/root", body=BEGAN)
    assert log_line(began).endswith("/root call_began exec_command Read src/a.py")
    assert "exec_command: Read src/a.py" in "\n".join(PlainLines().add(Recorded(record=began)))


def test_a_transcript_says_it_above_the_command_itself():
    record = Record(seq=1, ts=1.0, agent="/root", body=BEGAN)
    lines = [line.plain for line in transcript_lines((record,), "/root")]
    assert lines == ["", "Read src/a.py", f"$ {SED}", "  in /w"]


def test_who_approves_sees_the_command_and_what_it_does():
    action = CommandAction(argv=CALL.argv, cwd="/w", script=SED, parsed_cmd=CALL.parsed_cmd)
    request = ApprovalRequest(action=action, cause="rule")
    asked = ApprovalRequested(approval_id="a1", request=request, reviewer="person")
    told = approval_request_lines(asked, run="4f21c0aa")
    assert told[0] == f"needs approval a1: command: {SED}"
    assert "it only reads: Read src/a.py" in told
    pending = PendingApproval(approval_id="a1", agent="/root", request=request, reviewer="person")
    listed = _approval_lines(pending)
    assert listed[1] == f"    {SED}"
    assert "    it only reads: Read src/a.py" in listed


def test_json_has_it_as_codex_has_it_and_unknown_where_it_is_not_known():
    line: Any
    (line,) = OpenItems().begin(BEGAN, "i")
    assert line.item.parsed_cmd == CALL.parsed_cmd
    other = CommandCall(script="make", argv=("/bin/bash", "-c", "make"), cwd="/w")
    began = CallBegan(turn_id="t", call_id="c", tool="exec_command", detail=other)
    (line,) = OpenItems().begin(began, "i")
    assert [(type(one).__name__, one.cmd) for one in line.item.parsed_cmd] == [("Unknown", "make")]


def test_what_a_model_wrote_reaches_no_view_unescaped_or_unbounded():
    read = ReadFile(cmd=HOSTILE, name=HOSTILE, path=HOSTILE)
    call = CommandCall(script=HOSTILE, argv=(), cwd="/w", parsed_cmd=(read,) * 3)
    began = CallBegan(turn_id="t", call_id="c", tool="exec_command", detail=call)
    record = Record(seq=1, ts=1.0, agent="/root", body=began)
    action = CommandAction(argv=(), cwd="/w", script="x", parsed_cmd=call.parsed_cmd)
    asked = ApprovalRequested(
        approval_id="a1", request=ApprovalRequest(action=action, cause="rule"), reviewer="person"
    )
    shown = io.StringIO()
    first = next(line.plain for line in transcript_lines((record,), "/root") if line.plain)
    told = PlainLines().add(Recorded(record=record))
    for line in (log_line(record), *told, first, *approval_request_lines(asked, run="r")):
        shown.write(line + "\n")
        assert "\n" not in line
        assert len(line) < 600
    assert "\x1b" not in shown.getvalue()
    assert "\u202e" not in shown.getvalue()
