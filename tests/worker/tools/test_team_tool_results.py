"""What the team's tools decide, as tables: references, bounds, states, cuts, jobs."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.mailbox.base.ids import resolve_path
from swarm.mailbox.parts.jobs.job_messages import SpawnOnCsv
from swarm.mailbox.protocol.requests import TeamMember, Waited
from swarm.worker.parts.jobs.csv_job import CsvArguments, csv_request
from swarm.worker.tools.interface.tool_interface import ToolFailed
from swarm.worker.tools.spawn_agent import fork_turns_of
from swarm.worker.tools.team_status import CUT, agent_status, finished_agents
from swarm.worker.tools.wait_agent import merge_replies, timeout_s


@pytest.mark.parametrize(
    ("given", "meant"),
    [(None, "all"), (" ", "all"), ("ALL", "all"), (" None ", "none"), ("3", "3"), (7, "7")],
)
def test_how_much_history_a_child_gets_is_read_in_every_form(given, meant):
    assert fork_turns_of(given) == meant


@pytest.mark.parametrize("given", ["0", "-1", "some", "1.5", "²", "9" * 30, 0])
def test_other_forms_of_fork_turns_are_refused(given):
    with pytest.raises(ToolFailed, match="fork_turns must be"):
        fork_turns_of(given)


@pytest.mark.parametrize(
    ("reference", "path"),
    [
        ("b", "/root/a/b"),
        ("b/c", "/root/a/b/c"),
        ("/root", "/root"),
        ("/root/b", "/root/b"),
    ],
)
def test_a_reference_is_absolute_or_below_the_speaker(reference, path):
    assert resolve_path(reference, base="/root/a") == path


@given(st.text(alphabet="/ab_.R", max_size=12))
def test_a_reference_never_leads_out_of_the_tree(reference):
    try:
        path = resolve_path(reference, base="/root/a")
    except ValueError:
        return
    assert path == "/root" or path.startswith("/root/")
    assert resolve_path(path, base="/root") == path


@pytest.mark.parametrize(
    ("timeout_ms", "seconds"),
    [(None, 30.0), (1, 10.0), (10_000, 10.0), (60_000, 60.0), (9_999_999, 3600.0)],
)
def test_a_wait_stays_within_its_bounds(timeout_ms, seconds):
    assert timeout_s(timeout_ms) == seconds


@pytest.mark.parametrize(
    ("status", "result", "told"),
    [
        ("queued", None, "queued"),
        ("starting", None, "pending_init"),
        ("running", None, "running"),
        ("completed", "42", {"completed": "42"}),
        ("completed", None, {"completed": None}),
        ("truncated", "4", {"completed": "4"}),
        ("interrupted", None, "interrupted"),
        ("killed", "x", "shutdown"),
        ("crashed", "signal 9", {"errored": "crashed: signal 9"}),
        ("budget", None, {"errored": "budget"}),
        ("deadline", None, {"errored": "deadline"}),
        ("refused", None, {"errored": "refused"}),
        ("failed", "no", {"errored": "failed: no"}),
        ("not_found", None, "not_found"),
    ],
)
def test_every_end_state_has_one_status(status, result, told):
    assert agent_status(TeamMember(path="/root/a", status=status, result=result)) == told


@given(
    st.lists(st.text(max_size=200), max_size=12),
    st.integers(min_value=0, max_value=600),
)
def test_results_are_cut_fairly_and_never_beyond_their_room(results, limit):
    members = tuple(
        TeamMember(path=f"/root/a{n}", status="completed", result=text)
        for n, text in enumerate(results)
    )
    ends = finished_agents(members, limit_bytes=limit)
    assert [one["agent_name"] for one in ends] == [member.path for member in members]
    kept = [one["result"].removesuffix(CUT) for one in ends]
    assert sum(len(text.encode()) for text in kept) <= limit
    for whole, text, end in zip(results, kept, ends, strict=True):
        assert whole.startswith(text)
        if end["result"] != whole:  # nobody is cut who needs no more than an equal share
            assert len(whole.encode()) > limit // len(results)


def test_news_of_our_own_is_no_time_out_and_no_end_is_lost():
    ended = TeamMember(path="/root/a", status="completed")
    first = Waited(timed_out=False, finished=(ended,))
    second = Waited(timed_out=True, still_running=("/root/a", "/root/b"), mail=2)
    assert merge_replies([first, second], news_came=True) == Waited(
        timed_out=False, finished=(ended,), still_running=("/root/b",), mail=2
    )
    assert merge_replies([second], news_came=True).timed_out is False
    assert merge_replies([second], news_came=False).timed_out is True


def test_a_job_is_asked_with_absolute_paths_and_bounded_workers(tmp_path):
    arguments = CsvArguments(
        csv_path="rows.csv", instruction="Do {name}", id_column=" ", max_workers=200,
        output_schema={"type": msgspec.Raw(b'"object"')},
    )  # fmt: skip
    assert csv_request(arguments, cwd=tmp_path) == SpawnOnCsv(
        csv_path=str(tmp_path / "rows.csv"), instruction="Do {name}", max_concurrency=64,
        output_schema=b'{"type":"object"}',
    )  # fmt: skip
