"""A batch job's files are what was decided on, whatever a command puts in their places."""

import os
import subprocess
import sys

import pytest

from swarm.mailbox.base.path_rules import make_rules
from swarm.mailbox.protocol.values.limits import DangerFullAccess, ProfilePolicy, WorkspaceWrite
from swarm.supervisor.agents.child_plan import AgentRequestError
from swarm.supervisor.parts.jobs.job_files import MAX_BYTES, FileAccess, ResultsFile, TableFile
from swarm.supervisor.parts.jobs.job_table import check_table, read_rows


@pytest.fixture
def work(tmp_path):
    (tmp_path / "work" / "out").mkdir(parents=True)
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / ".bashrc").write_text("mine\n")
    return tmp_path / "work"


def reach_of(work, **changes):
    return FileAccess(**{"sandbox": WorkspaceWrite(), "roots": (str(work),), **changes})


def swap(folder, target):
    """What a command does meanwhile: the folder away, a link in its place."""
    folder.rename(folder.with_name("moved"))
    folder.symlink_to(target)


def test_results_go_to_the_folder_that_was_decided_on_though_a_link_stands_in_its_place(work):
    home = work.parent / "home"
    place = ResultsFile(work / "out" / ".bashrc", reach_of(work))
    swap(work / "out", home)
    place.write(lambda file: file.write(b"-a never"))
    assert (home / ".bashrc").read_text() == "mine\n"
    assert (work / "moved" / ".bashrc").read_bytes() == b"-a never"
    assert place.path == work / "moved" / ".bashrc"


def test_results_are_refused_where_the_folder_was_moved_out_of_reach(work):
    place = ResultsFile(work / "out" / "o.csv", reach_of(work))
    (work / "out").rename(work.parent / "home" / "out")
    with pytest.raises(AgentRequestError, match="outside of what you may"):
        place.write(lambda file: file.write(b"x"))
    assert not (work.parent / "home" / "out" / "o.csv").exists()


def test_results_replace_a_link_and_are_not_written_through_it(work):
    place = ResultsFile(work / "out" / "o.csv", reach_of(work))
    (work / "out" / "o.csv").symlink_to(work.parent / "home" / ".bashrc")
    place.write(lambda file: file.write(b"x"))
    assert (work.parent / "home" / ".bashrc").read_text() == "mine\n"
    assert not (work / "out" / "o.csv").is_symlink()


def test_a_write_that_fails_leaves_nothing_behind(work):
    place = ResultsFile(work / "out" / "o.csv", reach_of(work))

    def fail(file):
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        place.write(fail)
    assert os.listdir(work / "out") == []


@pytest.mark.parametrize("name", [".git", ".swarm", ".codex", ".agents", ".aws", ".git/hooks/x"])
def test_results_never_take_a_protected_name(work, name):
    for one in (".git/hooks", ".swarm"):
        (work / one).mkdir(parents=True, exist_ok=True)
    with pytest.raises(AgentRequestError):
        ResultsFile(work / name, reach_of(work))


def test_a_table_is_the_file_that_was_opened_though_its_folder_is_a_link_now(work):
    secret = work.parent / "home" / "in.csv"
    secret.write_text("v\nsecret\n")
    (work / "out" / "in.csv").write_text("v\nmine\n")
    file = TableFile(work / "out" / "in.csv", reach_of(work).may_read)
    assert check_table(file, id_column=None).rows == 1
    swap(work / "out", secret.parent)
    assert [row.cells for row in read_rows(file, ("v",), id_column=None)] == [("mine",)]


def test_a_link_that_comes_between_the_decision_and_the_opening_is_refused(work):
    hidden = work.parent / "home"
    (hidden / "in.csv").write_text("v\nsecret\n")
    (work / "out" / "in.csv").write_text("v\nmine\n")
    reach = reach_of(work, hidden=(str(hidden),))

    def decide_while_it_is_swapped(real):
        allowed = reach.may_read(real)
        swap(work / "out", hidden)
        return allowed

    with pytest.raises(AgentRequestError, match="Too many levels of symbolic links"):
        TableFile(work / "out" / "in.csv", decide_while_it_is_swapped)


def test_a_table_is_read_only_where_its_agents_commands_may_read(work):
    (work.parent / "home" / "in.csv").write_text("v\n1\n")
    other = str(work.parent / "home" / "in.csv")
    inside = str(work / "in.csv")
    assert reach_of(work).may_read(inside)
    assert not reach_of(work).may_read("/tmp/of-somebody-else.csv")
    assert not reach_of(work, hidden=(str(work),)).may_read(inside)
    rules = make_rules([("/", "read"), (str(work), "write"), (str(work / "secret"), "deny")])
    profile = ProfilePolicy(name="p", rules=rules, deny_globs=(f"{work}/**/*.env",))
    held = reach_of(work, sandbox=profile)
    assert (held.may_read(inside), held.may_write(inside)) == (True, True)
    for path in (work / "secret" / "x", work / "a" / "b.env"):
        assert (held.may_read(str(path)), held.may_write(str(path))) == (False, False)
    free = reach_of(work, sandbox=DangerFullAccess())
    assert free.may_read(other) and not free.may_read("/proc/self/environ")


@pytest.mark.parametrize("kind", ["fifo", "zero", "folder"])
def test_what_is_no_regular_file_is_refused_at_once(work, kind):
    path = work / "in.csv"
    match kind:
        case "fifo":
            os.mkfifo(path)
        case "zero":
            path.symlink_to("/dev/zero")
        case _:
            path.mkdir()
    with pytest.raises(AgentRequestError, match="failed to read csv input"):
        TableFile(path, lambda real: True)


def test_a_table_that_grows_while_it_is_read_is_refused_at_the_bound(work):
    path = work / "in.csv"
    path.write_bytes(b"v\n")
    file = TableFile(path, reach_of(work).may_read)
    with path.open("rb+") as grown:
        grown.seek(MAX_BYTES + (1 << 20))
        grown.write(b"\n")
    with file.open() as text, pytest.raises(OSError, match="grown over 64 MiB"):
        while text.read(1 << 20):
            pass


def test_the_door_opens_no_link_where_the_kernel_has_no_openat2(work):
    (work / "link").symlink_to("out")
    (work / "out" / "f").write_text("x")
    script = (
        "import os, sys\n"
        "from swarm.mailbox.base import safe_open\n"
        "safe_open._has_openat2 = lambda: False\n"
        "top = sys.argv[1]\n"
        "os.close(safe_open.open_canonical(f'{top}/out/f', safe_open.READ_FLAGS))\n"
        "for path in (f'{top}/link/f', f'{top}/out/../out/f'):\n"
        "    try:\n"
        "        safe_open.open_canonical(path, safe_open.READ_FLAGS)\n"
        "    except OSError:\n"
        "        continue\n"
        "    sys.exit(path)\n"
    )
    done = subprocess.run([sys.executable, "-c", script, str(work)], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
