"""A batch job's table: what is refused, how items are named, how results are joined."""

import csv
import io
from pathlib import Path
from tempfile import NamedTemporaryFile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.mailbox.protocol.values.limits import DangerFullAccess, ReadOnly, WorkspaceWrite
from swarm.supervisor.agents.child_plan import AgentRequestError
from swarm.supervisor.parts.jobs.job_files import FileAccess, ResultsFile, TableFile
from swarm.supervisor.parts.jobs.job_table import (
    JobResultSpool,
    JobRow,
    JobTable,
    check_table,
    fill_template,
    job_item_prompt,
    output_path_for,
    read_headers,
    read_rows,
    write_results,
)


def table(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "in.csv"
    path.write_text(text, encoding="utf-8")
    return path


def opened(path: Path) -> TableFile:
    return TableFile(path, lambda real: True)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "csv input must include a header row"),
        ("a,a\n1,2\n", "csv header a is duplicated"),
        ("a,b\n1,2\n\n3\n", "csv row 4 has 1 fields but header has 2"),
        ("a,b\n\n,\n", "has no rows"),
        ('a\n"open\n', "failed to parse"),
    ],
)
def test_a_table_that_is_not_sound_is_refused_by_its_line(tmp_path, text, words):
    with pytest.raises(AgentRequestError, match=words):
        check_table(opened(table(tmp_path, text)), id_column=None)


def test_a_missing_table_and_a_missing_column_are_refused(tmp_path):
    with pytest.raises(AgentRequestError, match="failed to read csv input"):
        opened(tmp_path / "none.csv")
    with pytest.raises(AgentRequestError, match="id_column x was not found"):
        check_table(opened(table(tmp_path, "a\n1\n")), id_column="x")


def test_items_are_named_by_column_or_number_and_each_name_is_used_once(tmp_path):
    path = opened(table(tmp_path, "\ufeffid,v\nx,1\n ,2\nx,3\nx-2,4\n\nx,5\n"))
    headers = read_headers(path)
    rows = list(read_rows(path, headers, id_column="id"))
    assert headers == ("id", "v")
    assert [row.item_id for row in rows] == ["x", "row-2", "x-2", "x-2-2", "x-3"]
    assert [row.source_id for row in rows] == ["x", None, "x", "x-2", "x"]
    assert check_table(path, id_column="id").rows == 5


@pytest.mark.parametrize(
    ("template", "filled"),
    [
        ("say {a}", "say A"),
        ("{{a}} {b} {}", "{a} {b} {}"),
        ("{a}{a}", "AA"),
        ("{c}", "{a}"),
    ],
)
def test_a_template_is_filled_once_and_other_braces_stay(template, filled):
    assert fill_template(template, {"a": "A", "c": "{a}"}) == filled


@given(st.lists(st.text("ab-23 ", max_size=4), min_size=1, max_size=30))
def test_any_ids_become_unique(names):
    with NamedTemporaryFile("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([["id", "v"], *([name, "v"] for name in names)])
        file.flush()
        rows = list(read_rows(opened(Path(file.name)), ("id", "v"), id_column="id"))
    assert len({row.item_id for row in rows}) == len(rows) == len(names)


def test_a_worker_is_told_its_ids_its_row_and_how_to_report():
    row = JobRow(index=0, item_id="x", source_id="x", cells=("1",))
    words = job_item_prompt("look at {v}", ("v",), row, job_id="job", schema=b'{"type":"object"}')
    for part in ("look at 1", "Item: x", "Job: job", '{"v":"1"}', "report_agent_job_result"):
        assert part in words


def test_results_go_beside_the_table_unless_said_otherwise():
    assert output_path_for(Path("/a/in.csv"), None, job_id="12345678-9") == Path(
        "/a/in.agent-job-12345678.csv"
    )
    assert output_path_for(Path("/a/in.csv"), "/b/out.csv", job_id="1") == Path("/b/out.csv")


def test_results_are_written_only_where_the_agent_itself_may_write(tmp_path):
    work, other = tmp_path / "work", tmp_path / "other"
    work.mkdir()
    other.mkdir()
    (work / "link").symlink_to(other)
    roots = (str(work),)

    def place(output, sandbox, *, roots=roots):
        return ResultsFile(output, FileAccess(sandbox=sandbox, roots=roots)).path

    assert place(work / "o.csv", WorkspaceWrite()) == work / "o.csv"
    for wanted in (other / "o.csv", work / "link" / "o.csv", work / ".." / "other" / "o.csv"):
        with pytest.raises(AgentRequestError, match="outside of what you may"):
            place(wanted, WorkspaceWrite())
    with pytest.raises(AgentRequestError, match="outside of what you may"):
        place(work / "o.csv", ReadOnly())
    assert place(other / "o.csv", WorkspaceWrite(writable_roots=(str(other),)))
    assert place(other / "o.csv", DangerFullAccess(), roots=())


def test_results_are_joined_in_order_of_the_rows_and_unbegun_rows_are_left_out(tmp_path):
    path = opened(table(tmp_path, "v\na\nb\nc\n"))
    sound = JobTable(path=str(path.path), headers=("v",), rows=3)
    spool = JobResultSpool(io.BytesIO(), 3)
    for index in (2, 0):
        spool.add(index, ["job", f"row-{index + 1}", str(index), *[""] * 7])
    reach = FileAccess(sandbox=WorkspaceWrite(), roots=(str(tmp_path),))
    ResultsFile(tmp_path / "out.csv", reach).write(
        lambda target: write_results(target, path, sound, spool, id_column=None)
    )
    with (tmp_path / "out.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["v"], row["item_id"]) for row in rows] == [("a", "row-1"), ("c", "row-3")]
    assert {one.name for one in tmp_path.iterdir()} == {"in.csv", "out.csv"}
