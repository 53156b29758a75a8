"""What a memory job takes from ended runs, and what it leaves."""

import json
import re
from contextlib import closing
from pathlib import Path

import pytest
from msgspec.structs import replace

from support.remembered_runs import DAY_S, NOW, ON, RememberedRuns, commands
from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.base.redact import Redactor
from swarm.mailbox.parts.memories.memory_messages import MemoryMarked, MemorySettings
from swarm.mailbox.protocol.values.findings import Finding, FindingPublished
from swarm.mailbox.protocol.values.limits import DangerFullAccess, Limits, WorkspaceWrite
from swarm.supervisor.parts.memories.commands.memory_job import describe
from swarm.supervisor.parts.memories.memory_database import open_database
from swarm.supervisor.parts.memories.memory_store import MemoryStore
from swarm.supervisor.parts.memories.memory_transfer import export_memories, import_memories
from swarm.supervisor.parts.memories.model_extraction import Asked

TESTS = ("./run_tests.sh -q", 0, "ok")
WORKED = "`./run_tests.sh -q` runs the tests and succeeded."


@pytest.fixture
def runs(tmp_path: Path) -> RememberedRuns:
    return RememberedRuns(tmp_path.resolve())


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return tmp_path.resolve() / "project"


def the_id(runs: RememberedRuns, text: str) -> str:
    with closing(open_database(runs.paths.database)) as base:
        return next(f.fact_id for f in MemoryStore(base).facts.all() if f.text == text)


def test_a_command_that_worked_is_remembered_once_by_two_runs_and_survives_one_of_them(
    runs, project
):
    first = runs.add(commands(TESTS), cwd=project)
    runs.add(commands(TESTS, ("ls", 0, "")), cwd=project)
    assert runs.work().extracted == 2
    assert runs.texts() == {WORKED}
    with closing(open_database(runs.paths.database)) as base:
        store = MemoryStore(base)
        assert store.remove_run(first, NOW)
        assert [fact.runs for fact in store.facts.all()] == [1]


def test_nothing_crosses_from_one_project_to_its_neighbour(runs, tmp_path):
    one, two = tmp_path.resolve() / "one", tmp_path.resolve() / "two"
    runs.add(commands(TESTS), cwd=one, said="Always use tabs in this file.")
    runs.add(commands(("make test", 0, "")), cwd=two)
    runs.work()
    assert runs.texts(one) == {WORKED, "Always use tabs in this file."}
    assert runs.texts(two) == {"`make test` runs the tests and succeeded."}
    folders = [path for path in runs.paths.folder.iterdir() if (path / "MEMORY.md").is_file()]
    texts = [(folder / "MEMORY.md").read_text() for folder in folders]
    assert sorted("run_tests" in text for text in texts) == [False, True]


def test_a_run_is_read_again_only_when_it_has_gone_on(runs, project):
    runs.add(commands(TESTS), cwd=project)
    assert runs.work().extracted == 1
    assert runs.work().extracted == 0


def test_runs_without_memories_and_old_ones_are_no_source(runs, project):
    runs.add(commands(TESTS), cwd=project, settings=MemorySettings())
    runs.add(commands(TESTS), cwd=project, settings=replace(ON, generate=False))
    runs.add(commands(TESTS), cwd=project, ended=NOW - 31 * DAY_S)
    assert runs.work().extracted == 0


def test_a_job_takes_the_newest_runs_up_to_its_bound(runs, project):
    for number in range(5):
        runs.add(commands((f"make test-{number}", 0, "")), cwd=project)
    assert runs.work(replace(ON, most_runs=2)).extracted == 2
    assert runs.texts() == {f"`make test-{n}` runs the tests and succeeded." for n in (3, 4)}
    assert runs.work(replace(ON, most_runs=2)).extracted == 2


@pytest.mark.parametrize(
    "limits", [Limits(sandbox=WorkspaceWrite(network_access=True)),
               Limits(sandbox=DangerFullAccess())],
)  # fmt: skip
def test_a_run_whose_commands_reach_the_network_is_left_out_unless_asked(runs, project, limits):
    runs.add(commands(TESTS), cwd=project, limits=limits)
    done = runs.work()
    assert (done.extracted, done.left_out) == (0, 1)
    assert runs.texts() == set()
    again = RememberedRuns(runs.places.config / "another")
    again.add(commands(TESTS), cwd=project, limits=limits)
    assert again.work(replace(ON, leaves_out_polluted=False)).extracted == 1


def test_a_run_that_was_left_out_is_taken_once_the_person_says_so(runs, project):
    runs.add(commands(TESTS, untrusted=True), cwd=project)
    assert runs.work().left_out == 1
    asked = replace(ON, leaves_out_polluted=False)
    assert runs.work(asked).extracted == 1
    assert runs.texts() == {WORKED}
    assert runs.work(asked).extracted == 0


def test_a_run_that_read_untrusted_output_is_left_out(runs, project):
    runs.add(commands(TESTS, untrusted=True), cwd=project)
    assert runs.work().left_out == 1
    assert runs.texts() == set()


def test_used_memories_count_and_untrue_ones_are_told_as_such(runs, project):
    runs.add(commands(TESTS, ("make lint", 0, "")), cwd=project)
    runs.work()
    name, lint = the_id(runs, WORKED), the_id(runs, "`make lint` checks the code and succeeded.")
    runs.now += 60
    runs.add(
        [MemoryMarked(fact_id=lint, why="there is no such target")],
        cwd=project, answer=f"All pass.\n\nmemories: {name}, m00000000",
    )  # fmt: skip
    runs.work()
    with closing(open_database(runs.paths.database)) as base:
        store = MemoryStore(base)
        used, stale = store.facts.find(name), store.facts.find(lint)
        assert (used.uses, used.last_used) == (1, runs.now)
        assert stale.stale == "there is no such target"
        summary = (runs.paths.project(used.project) / "memory_summary.md").read_text()
    assert "run_tests" in summary
    assert "make lint" not in summary


def test_findings_are_remembered_with_their_place_and_once(runs, project):
    found = Finding(number=1, author="/root/a", fact="The parser lives in two files.",
                    file="src/p.py", lines="3-9")  # fmt: skip
    for _ in range(2):
        runs.add([FindingPublished(finding=found)], cwd=project)
    runs.work()
    with closing(open_database(runs.paths.database)) as base:
        facts = MemoryStore(base).facts.all()
    assert [(fact.text, fact.place, fact.runs) for fact in facts] == [
        ("The parser lives in two files.", "src/p.py:3-9", 2)
    ]


def test_what_was_forgotten_is_nowhere_and_does_not_come_back(runs, project):
    secretly = "We deploy from the branch called moonlight every friday."
    for _ in range(2):
        runs.add(commands(TESTS), cwd=project, said=f"Look around. {secretly}")
        runs.work()
    assert secretly in runs.texts()
    assert b"moonlight" in runs.everything_written()
    name = the_id(runs, secretly)
    with runs.paths.writing(wait_s=0), closing(open_database(runs.paths.database)) as base:
        assert MemoryStore(base).facts.forget(name, now=NOW) is not None
    runs.add(commands(TESTS), cwd=project, said=f"Look around again. {secretly}")
    runs.work()
    assert runs.texts() == {WORKED}
    left = runs.everything_written()
    assert b"moonlight" not in left


def test_a_persons_edits_are_kept_and_removed_lines_are_forgotten(runs, project):
    runs.add(commands(TESTS, ("make lint", 0, "")), cwd=project)
    runs.work()
    (file,) = runs.paths.folder.glob("*/MEMORY.md")
    text = file.read_text()
    text = re.sub(r"- `make lint`.*\n?", "", text)
    text = text.replace("runs the tests and succeeded", "runs only the fast tests")
    file.write_text(f"{text}\n\n- Redis must run before the tests.\nA line without a mark\n")
    runs.add(commands(TESTS, ("make lint", 0, ""), ("make build", 0, "")), cwd=project)
    runs.work()
    mine = {"`./run_tests.sh -q` runs only the fast tests.", "Redis must run before the tests.",
            "A line without a mark"}  # fmt: skip
    assert mine <= runs.texts()
    assert "`make lint` checks the code and succeeded." not in runs.texts()
    for line in mine:
        assert line in file.read_text()
    runs.work()
    assert mine <= runs.texts()


def test_unused_memories_are_pruned_and_pinned_ones_stay(runs, project):
    runs.add(commands(TESTS, ("make lint", 0, "")), cwd=project)
    runs.work()
    with closing(open_database(runs.paths.database)) as base:
        MemoryStore(base).facts.pin(the_id(runs, WORKED), pinned=True, now=NOW)
    runs.now += 40 * DAY_S
    runs.work()
    runs.work()
    assert runs.texts() == {WORKED}


def test_secrets_reach_neither_database_nor_files_nor_a_prompt(runs, project):
    secrets = ["sk-abcdefghijklmnopqrstuvwx123456", "AKIAIOSFODNN7EXAMPLA",
               "ghp_0123456789abcdefghijklmnopqrstuvwxyz", "password=hunter2hunter2"]  # fmt: skip
    said = " ".join(f"Always use {one} here." for one in secrets)
    ran = [(f"make test TOKEN={one}", 0, one) for one in secrets]
    runs.add(commands(*ran, TESTS), cwd=project, said=said, answer=f"done with {secrets[0]}")
    found = {"kind": "finding", "text": f"Uses {secrets[2]}", "place": "", "quote": ""}
    answer = {"title": secrets[0], "summary": secrets[1], "facts": [found]}
    runs.work(replace(ON, method="model"), lambda _prompt: Asked(text=json.dumps(answer)))
    assert runs.asked
    written = runs.everything_written() + "".join(runs.asked).encode()
    for one in secrets:
        assert one.encode() not in written


def test_two_machines_memories_are_merged_by_an_import(runs, project, tmp_path):
    runs.add(commands(TESTS), cwd=project)
    runs.work()
    other = RememberedRuns(tmp_path.resolve() / "other")
    other.add(commands(TESTS, ("make lint", 0, "")), cwd=project)
    other.work()
    with closing(open_database(other.paths.database)) as base:
        store = MemoryStore(base)
        data = export_memories(store, store.projects())
    with closing(open_database(runs.paths.database)) as base:
        done, changed = import_memories(MemoryStore(base), data, redactor=Redactor(()), now=NOW)
    assert (done.facts, done.known, done.runs, len(changed)) == (1, 1, 1, 1)
    assert runs.texts() == {WORKED, "`make lint` checks the code and succeeded."}
    runs.work()
    (file,) = runs.paths.folder.glob("*/MEMORY.md")
    assert "make lint" in file.read_text()


@pytest.mark.parametrize(
    ("what", "instead"),
    [
        ('"project": "', '"project": "../../'),
        ('"format": 1', '"format": 2'),
        ('"facts": [', '"facts": [7, '),
    ],
)
def test_a_file_that_no_export_wrote_is_refused_whole(runs, project, what, instead):
    runs.add(commands(TESTS), cwd=project)
    runs.work()
    with closing(open_database(runs.paths.database)) as base:
        store = MemoryStore(base)
        data = export_memories(store, store.projects()).replace(what.encode(), instead.encode())
        with pytest.raises(UsageError):
            import_memories(store, data, redactor=Redactor(()), now=NOW)


def test_an_imported_run_with_a_path_for_a_name_is_left_out(runs, project):
    runs.add(commands(TESTS), cwd=project)
    runs.work()
    with closing(open_database(runs.paths.database)) as base:
        store = MemoryStore(base)
        (known,) = store.outputs()
        data = export_memories(store, store.projects())
        data = data.replace(known.run_id.encode(), b"../../../../planted/x/y")
        done, _ = import_memories(store, data, redactor=Redactor(()), now=NOW)
        assert done.runs == 0
        assert {one.run_id for one in store.outputs()} == {known.run_id}


def test_thirty_runs_in_two_projects_end_in_the_order_of_their_use(runs, tmp_path):
    folders = [tmp_path.resolve() / "one", tmp_path.resolve() / "two"]
    for number in range(30):
        runs.now += DAY_S / 10
        runs.add(commands((f"make test-{number // 2}", 0, "")), cwd=folders[number % 2])
        runs.work()
    for folder in folders:
        assert len(runs.texts(folder)) == 15
    favourite = the_id_in(runs, folders[0], "`make test-3` runs the tests and succeeded.")
    for _ in range(3):
        runs.now += 60
        runs.add([], cwd=folders[0], answer=f"memories: {favourite}")
    runs.work()
    with closing(open_database(runs.paths.database)) as base:
        store = MemoryStore(base)
        project = store.project_of(str(folders[0]))
        assert store.facts.all(project)[0].fact_id == favourite
        chosen = store.select(project, most=5, used_since=0.0)
        assert len(chosen) == 5
        assert chosen[0].uses == 3
        assert all(one.is_selected and one.selected_updated_at == one.updated_at for one in chosen)
    first = (runs.paths.project(project) / "memory_summary.md").read_text()
    assert first.index("test-3`") < first.index("test-14`")


def the_id_in(runs: RememberedRuns, folder: Path, text: str) -> str:
    with closing(open_database(runs.paths.database)) as base:
        store = MemoryStore(base)
        facts = store.facts.all(store.project_of(str(folder)))
        return next(fact.fact_id for fact in facts if fact.text == text)


def test_a_model_adds_what_the_journal_bears_out_and_its_cost_counts_against_the_day(runs, project):
    answer = {
        "title": "Find the tests", "summary": "The tests were found.",
        "facts": [
            {"kind": "finding", "text": "The tests live beside the code."},
            {"kind": "preference", "text": "x", "place": "", "quote": "keep functions short"},
            {"kind": "preference", "text": "x", "place": "", "quote": "never said by anybody"},
        ],
    }  # fmt: skip
    chosen = replace(ON, method="model", budget_tokens=500)
    reply = lambda _prompt: Asked(text=json.dumps(answer), tokens=600, usd=0.01)  # noqa: E731
    runs.add(commands(TESTS), cwd=project, said="Look, and keep functions short.")
    done = runs.work(chosen, reply)
    assert runs.texts() == {WORKED, "The tests live beside the code.", "keep functions short"}
    assert (done.tokens, round(done.usd, 2)) == (600, 0.01)
    runs.add(commands(("make test", 0, "")), cwd=project)
    assert runs.work(chosen, reply).tokens == 0
    assert len(runs.asked) == 1
    assert "`make test` runs the tests and succeeded." in runs.texts()


def test_a_model_that_answers_nonsense_costs_no_memory(runs, project):
    runs.add(commands(TESTS), cwd=project)
    done = runs.work(replace(ON, method="model"), lambda _prompt: Asked(text="no JSON", tokens=5))
    assert runs.texts() == {WORKED}
    assert describe(done).endswith("a model gave nothing: its answer does not have the wanted form")


def test_a_model_that_could_not_be_asked_is_told_with_its_reason(runs, project):
    runs.add(commands(TESTS), cwd=project)
    done = runs.work(replace(ON, method="model"), lambda _prompt: Asked(failure="no key is set"))
    assert runs.texts() == {WORKED}
    assert describe(done) == (
        "1 run remembered, 1 project written; a model gave nothing: no key is set"
    )
