"""What a run needs, and how the screen of all runs shows it."""

import pytest
from rich.cells import cell_len

from swarm.mailbox.protocol.approvals import ApprovalRequest, CommandAction, PendingApproval
from swarm.mailbox.protocol.control import AgentView, RunView
from swarm.mailbox.protocol.items import TokenUsage
from swarm.supervisor.clients.console.theme import UNICODE_GLYPHS
from swarm.supervisor.clients.top.top_rows import order_rows, row_of
from swarm.supervisor.clients.top.top_view import render_top
from swarm.supervisor.runs.run_list import RunSummary

EVIL = "x\x1b[2J\x1b]2;t\x07\r\n\u202ey" + "長" * 300
ACTION = CommandAction(argv=("rm", "-rf", "build"), cwd="/w")


def asked(reviewer="person"):
    request = ApprovalRequest(action=ACTION, cause="untrusted")
    return PendingApproval(approval_id="a1", agent="/root", request=request, reviewer=reviewer)


def summary(run_id="r-12345678", state="running", **fields):
    return RunSummary(run_id=run_id, state=state, **fields)


ROOT = AgentView(path="/root", state="running", tool="exec_command", argument="make", added=3)


@pytest.mark.parametrize(
    ("run", "view", "need", "doing"),
    [
        (summary(), RunView(agents=(ROOT,), approvals=(asked(),)), "waits for you", "rm -rf build"),
        (summary(), RunView(agents=(ROOT,), approvals=(asked("guardian"),)), "at work", "make"),
        (summary(), RunView(agents=(ROOT,)), "at work", "root: $ make"),
        (summary(), RunView(agents=(ROOT,), status="idle"), "asleep", "waits for words"),
        (summary(), None, "at work", "does not answer yet"),
        (summary(state="stopped"), None, "waits for you", "swarm resume 12345678"),
        (
            summary(state="completed", unmerged="/root/a 1 file"),
            None,
            "waits for you",
            "not merged",
        ),
        (summary(state="unmet", note="2 tests fail"), None, "waits for you", "2 tests fail"),
        (summary(state="failed", note="bad key"), None, "ended", "bad key"),
    ],
)
def test_each_run_is_grouped_by_what_it_needs(run, view, need, doing):
    row = row_of(run, view)
    assert row.need == need
    assert doing in row.doing


def test_what_waits_for_a_person_comes_first_then_the_newest():
    rows = [
        row_of(summary("r-00000001", "completed", started=9.0), None),
        row_of(summary("r-00000002", started=1.0), RunView(agents=(ROOT,))),
        row_of(summary("r-00000003", started=2.0), RunView(agents=(ROOT,))),
        row_of(summary("r-00000004", "stopped", started=0.5), None),
    ]
    assert [row.run_id[-1] for row in order_rows(rows)] == ["4", "3", "2", "1"]


def texts(lines):
    return ["".join(cell.text for cell in line) for line in lines]


@pytest.mark.parametrize("size", [(80, 24), (20, 4), (37, 7), (200, 50)])
def test_hostile_names_move_nothing_and_the_selected_run_is_always_shown(size):
    width, height = size
    agent = AgentView(path=f"/root/{EVIL}", state="running", text=EVIL)
    view = RunView(title=EVIL, cwd=f"/w/{EVIL}", status="running", agents=(agent,), usd=1e9,
                   usage=TokenUsage(total_tokens=10**12))  # fmt: skip
    rows = [row_of(summary(f"r-{n:08}", name=EVIL, note=EVIL), view) for n in range(60)]
    for chosen in (0, 31, 59):
        run = order_rows(rows)[chosen].run_id
        lines = render_top(
            rows, width=width, height=height, now=0.0, glyphs=UNICODE_GLYPHS, selected=run
        )
        shown = texts(lines)
        assert len(shown) <= height
        assert all(cell_len(text) <= width for text in shown)
        assert all(text.isprintable() for text in shown)
        assert any(run[-8:] in text for text in shown) or height < 6
