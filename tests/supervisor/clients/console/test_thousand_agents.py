"""A tree of a thousand agents: a frame costs a linear share, and shows as many lines as fit."""

import pytest

from support.linear_time import find_growth
from swarm.mailbox.protocol.control import AgentView, RunView
from swarm.supervisor.clients.console.run_summary import RunOutcome, SummaryRoom, summary_lines
from swarm.supervisor.clients.console.tree_view import render_run

SIZE = (100, 40)


def view_of(count):
    """A run with so many agents: one level below the root, every seventh with a child."""
    paths = ["/root"]
    while len(paths) < count:
        name = f"/root/w{len(paths):05}"
        paths += [name, f"{name}/deep"] if len(paths) % 7 == 0 else [name]
    states = ("running", "ended", "queued", "waiting")
    agents = tuple(
        AgentView(
            path=path, state=states[number % 4], note="waits", steps=number, started=1.0,
            end_state="failed" if number % 40 == 1 else "completed", last_progress=float(number),
        )
        for number, path in enumerate(sorted(paths)[:count])
    )  # fmt: skip
    return RunView(run_id="r-12345678", agents=agents, started=1.0)


def frame(view):
    return render_run(view, width=SIZE[0], height=SIZE[1], now=9.0)


def summary(view):
    room = SummaryRoom(width=SIZE[0], lines=SIZE[1])
    return summary_lines(view, RunOutcome(), room, totals="over")


@pytest.mark.parametrize("draw", [frame, summary])
def test_a_frame_of_many_agents_costs_a_linear_share(draw):
    assert find_growth(draw, view_of, 250) == ""


def test_a_thousand_agents_fit_a_screen_and_none_that_needs_a_look_is_missing_from_the_counts():
    lines = frame(view_of(1_000)).text.splitlines()
    assert len(lines) <= SIZE[1]
    (rest,) = [line for line in lines if " more: " in line]
    shown = sum("w0" in line or "/root " in line for line in lines)
    assert int(rest.partition("more:")[0].strip("… ─├└│")) + shown >= 900
    ended = [line for line in summary(view_of(1_000)) if line]
    failed = sum("failed" in "".join(cell.text for cell in line) for line in ended)
    assert failed >= 6  # those that fit, below their number
