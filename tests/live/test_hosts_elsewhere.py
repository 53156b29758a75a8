"""Agents on machines that have nothing of the project: each node has a file system of its own."""

import os
import site
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import pytest
import trio

from support.copied_agents import LIMIT_S, call, make_repository, play, project, root, swarm, turns
from support.mcp_testbed import call as mcp_call
from support.mcp_testbed import configure
from support.ray_lab import cluster, kill, nodes_of, titled, write_host
from swarm.mailbox.protocol.events import Warned
from swarm.mailbox.protocol.host_records import HostJoined
from swarm.supervisor.base.version import VERSION
from swarm.worker.parts.hosts import node_holder

__all__ = ["project"]

ray = pytest.importorskip("ray", reason="the extra `ray` is not installed")
UNSHARE = f"unshare {'--mount' if os.geteuid() == 0 else '-rm'} --propagation private"
CAN_MOUNT = subprocess.run([*UNSHARE.split(), "true"], capture_output=True).returncode == 0
pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(not CAN_MOUNT, reason="needs a mount namespace for each machine"),
]
HOSTS = ("--hosts", "lab")


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """The folder for caches of all machines."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def lab(cache):
    """The address of a cluster of one node."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("XDG_CACHE_HOME", str(cache))
        with cluster(1) as made:
            yield made.address


def python_of(rig, *commands):
    """A Python whose node runs in a mount namespace that these commands have changed."""
    program = rig.home / "python-elsewhere"
    inside = " && ".join((*commands, 'exec "$@"'))
    program.write_text(f"#!/bin/sh\nexec {UNSHARE} sh -c '{inside}' sh {sys.executable} \"$@\"\n")
    program.chmod(0o755)
    return f'"{program}"'


def empty(project):
    return f"mount -t tmpfs none {project}"


def without_overlays(rig, project, stack):
    """A machine on which only folders can be copies: it has no bubblewrap, or a disk that no
    overlay can lie on.
    """
    if stack == "landlock":
        masked = [path for path in ("/usr/bin/bwrap", "/bin/bwrap") if os.path.exists(path)]
        changes = [f"mount --bind /dev/null {path}" for path in masked]
    else:
        disk = rig.home / "disk"
        for name in ("lower", "upper", "work", "state"):
            (disk / name).mkdir(parents=True)
        changes = [
            f"mount -t overlay overlay -o lowerdir={disk}/lower,upperdir={disk}/upper,"
            f"workdir={disk}/work {disk}/state",
            f"export XDG_STATE_HOME={disk}/state",
        ]
    return python_of(rig, empty(project), *changes)


STACKS = pytest.mark.parametrize("stack", ["landlock", "bwrap"])
PROJECT_OF_GIT = (
    "ls; git log --format=%s; git status -s",
    "echo 1 > first",
    "git add first && git commit -qm 'the first'",
    "rm gone",
    "git add -A && git commit -qm 'the second'",
)


async def check_branch(rig, git):
    """The agent's two commits are where nobody else's are touched."""
    listed = rig.outputs("/root/one")[0]
    assert "gone\ntext\nbase" in listed, listed
    assert git("log", "--all", "--format=%s") == "base\n"
    said = await swarm(rig, "branch", rig.run_id, "one", "of-one")
    assert "2 of its commits are /root/one's own" in said
    assert git("log", "--format=%s", "of-one").splitlines() == ["the second", "the first", "base"]
    assert git("ls-tree", "--name-only", "of-one").split() == ["first", "text"]
    git("fsck", "--strict")


async def test_git_works_there_and_an_agents_commits_come_back(rig, project, lab):
    git = make_repository(project)
    write_host(rig, lab, python=python_of(rig, empty(project)))
    with trio.fail_after(LIMIT_S):
        await play(
            rig,
            *root("one"),
            *turns("/root/one", *PROJECT_OF_GIT),
            words=(*HOSTS, "--allow-commit"),
        )
        assert nodes_of(rig)["/root/one"]
        await check_branch(rig, git)


@STACKS
async def test_on_a_machine_without_overlays_git_works_in_a_folder_too(rig, project, lab, stack):
    git = make_repository(project)
    write_host(rig, lab, python=without_overlays(rig, project, stack))
    with trio.fail_after(LIMIT_S):
        await play(
            rig,
            *root("one"),
            *turns("/root/one", *PROJECT_OF_GIT),
            words=(*HOSTS, "--allow-commit"),
        )
        await check_branch(rig, git)


@STACKS
async def test_on_a_machine_without_overlays_an_agent_works_in_a_folder_and_that_is_said(
    rig, project, lab, stack
):
    write_host(rig, lab, python=without_overlays(rig, project, stack))
    (project / "sub").mkdir()
    (project / "sub" / "file").write_text("below")
    with trio.fail_after(LIMIT_S):
        await play(
            rig,
            *root("one"),
            *turns(
                "/root/one",
                "pwd; cat text; echo 2 > text; rm gone sub/file; rmdir sub",
                f"mkdir sub; echo new > sub/other; echo x > {project}/escaped",
            ),
            words=HOSTS,
        )
        await rig.wait_gone()
        (node,) = rig.bodies(HostJoined)
        assert node.sandbox == stack
        assert "copies are folders: " in await swarm(rig, "log")
        first = rig.outputs("/root/one")[0]
        assert "/node-copies/" in first and "line 9" in first
        assert sorted(os.listdir(project)) == ["gone", "sub", "text"]
        await swarm(rig, "merge", rig.run_id, "--yes")
    assert sorted(os.listdir(project)) == ["sub", "text"]
    assert (project / "text").read_text() == "2\n"
    assert os.listdir(project / "sub") == ["other"]
    tree = Path(first.partition("Output:\n")[2].split()[0])
    assert not tree.parent.is_dir()


@STACKS
async def test_on_a_machine_without_overlays_an_agent_has_its_files_again_after_its_node_was_killed(
    rig, project, lab, stack
):
    write_host(rig, lab, python=without_overlays(rig, project, stack))
    with trio.fail_after(LIMIT_S):
        started = await rig.run(
            rig.script(
                *root("one"),
                *turns("/root/one", "echo first > made; rm gone", "sleep 600", "cat made; ls"),
            ),
            *HOSTS,
            sandbox="workspace-write",
        )
        await rig.wait_call(count=2, agent="/root/one")
        kill(*titled(rig, "node"))
        ended = await started.wait_end()
        assert ended.code == 0, ended.err
    assert "first\nmade\ntext" in rig.outputs("/root/one")[2]


async def test_on_a_machine_without_overlays_commands_make_ignored_folders_too(rig, project, lab):
    write_host(
        rig,
        lab,
        python=without_overlays(rig, project, "bwrap"),
        prepare='["mkdir .venv; cp text .venv"]',
    )
    with trio.fail_after(LIMIT_S):
        await play(
            rig,
            *root("one"),
            *turns("/root/one", "cat .venv/text; echo x > .venv/y; ls"),
            words=HOSTS,
        )
    said = rig.outputs("/root/one")[0]
    assert "line 9" in said and "Read-only" in said
    assert sorted(os.listdir(project)) == ["gone", "text"]


async def test_a_servers_table_has_it_run_on_the_machine_of_the_agent_that_calls(rig, project, lab):
    configure(rig, more='where = "node"')
    write_host(rig, lab, python=python_of(rig, "export TZ=Elsewhere"))
    asks = mcp_call("environment")
    with tempfile.TemporaryDirectory(dir="/var/tmp") as signs, trio.fail_after(LIMIT_S):
        hold = f"until test -e {signs}/go; do sleep 0.02; done"
        started = await rig.run(
            rig.script(
                {"agent": "/root", "calls": [asks]},
                *root("one"),
                {"agent": "/root/one", "calls": [asks]},
                {"agent": "/root/one", "calls": [call("exec_command", cmd=hold)]},
                {"agent": "/root/one", "calls": [asks]},
                {"agent": "/root/one", "text": "done"},
            ),
            *HOSTS,
            sandbox="workspace-write",
        )
        await rig.wait_call(count=2, agent="/root/one")
        (hub,) = [pid for pid in titled(rig, "mcp hub") if machine_of(pid) == "Elsewhere"]
        kill(hub)
        await rig.wait(lambda: [one for one in rig.bodies(Warned) if "MCP hub" in one.message])
        (Path(signs) / "go").touch()
        ended = await started.wait_end()
        assert ended.code == 0, ended.err
        await rig.wait_gone()
    said = [*rig.outputs("/root")[:1], *rig.outputs("/root/one")]
    assert ["Elsewhere" in one for one in said] == [False, True, False, True], said
    assert all(str(rig.folder / "marks") in one for one in (said[0], said[1], said[3]))
    (told,) = [one.message for one in rig.bodies(Warned) if "MCP hub" in one.message]
    assert told.startswith(
        f"the MCP hub on {nodes_of(rig)['/root/one']} ended and is started again"
    )


def machine_of(pid):
    environment = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    return next((one[3:].decode() for one in environment if one.startswith(b"TZ=")), "")


async def test_a_hub_elsewhere_goes_with_its_machine_and_the_next_one_gets_another(
    rig, project, lab
):
    configure(rig, more='where = "node"')
    write_host(rig, lab, python=python_of(rig, "export TZ=Elsewhere"))
    asks = mcp_call("environment")
    with trio.fail_after(LIMIT_S):
        started = await rig.run(
            rig.script(
                *root("one"),
                {"agent": "/root/one", "calls": [asks]},
                {"agent": "/root/one", "calls": [call("exec_command", cmd="sleep 600")]},
                {"agent": "/root/one", "calls": [asks]},
                {"agent": "/root/one", "text": "done"},
            ),
            *HOSTS,
            sandbox="workspace-write",
        )
        await rig.wait_call(count=2, agent="/root/one")
        kill(*titled(rig, "node"))
        ended = await started.wait_end()
        assert ended.code == 0, ended.err
        await rig.wait_gone()
    said = rig.outputs("/root/one")
    assert "Elsewhere" in said[0] and "Elsewhere" in said[2]
    assert [one.message for one in rig.bodies(Warned) if "MCP" in one.message] == []


def own_wheel(folder, version):
    """A package that is this very swarm, and leaves a mark: its file leads to what is installed."""
    path = folder / f"swarm_supervisor-{version}-py3-none-any.whl"
    info = f"swarm_supervisor-{version}.dist-info"
    places = site.getsitepackages()
    files = {
        "swarm_supervisor.pth": f"import site; list(map(site.addsitedir, {places}))\n"
        "import os; os.environ['MADE_BY'] = 'the lock'\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: swarm-supervisor\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": "[console_scripts]\nswarm = swarm_command:main\n",
        f"{info}/RECORD": "",
    }
    with zipfile.ZipFile(path, "w") as wheel:
        for name, text in files.items():
            wheel.writestr(name, text)
    return f"swarm-supervisor @ file://{path}"


async def test_a_lock_is_installed_there_once_and_the_node_runs_in_its_environment(
    rig, project, lab, cache
):
    lock = rig.home / "lab.txt"
    lock.write_text(own_wheel(rig.home, VERSION))
    policy = '{ set = { GREETING = "hello" }, exclude = ["XDG_*"] }'
    write_host(rig, lab, python_env=f'"{lock}"', shell_environment_policy=policy)
    with trio.fail_after(LIMIT_S):
        show = "echo $MADE_BY, $GREETING, $XDG_CACHE_HOME."
        await play(rig, *root("one"), *turns("/root/one", show), words=HOSTS)
        assert "the lock, hello, ." in rig.outputs("/root/one")[0]
        made = environments(cache)
        await swarm(rig, "hosts", "probe", "lab")
    assert made == environments(cache)
    assert len(made) == 1


def environments(cache):
    """Those that were installed, with the number of a file that an installer makes."""
    return {one.name: (one / "pyvenv.cfg").stat().st_ino
            for one in (cache / "swarm/environments").iterdir() if one.is_dir()}  # fmt: skip


async def test_a_lock_that_cannot_be_installed_is_said_and_no_agent_starts_there(rig, project, lab):
    lock = rig.home / "lab.txt"
    lock.write_text(f"swarm-supervisor @ file:///none/swarm_supervisor-{VERSION}-py3-none-any.whl")
    write_host(rig, lab, python_env=f'"{lock}"')
    with trio.fail_after(LIMIT_S):
        said = await swarm(rig, "hosts", "doctor", "lab", code=1)
    assert "python_env could not be installed" in said


async def test_a_lock_of_another_version_is_refused_before_anything_starts(rig, project):
    lock = rig.home / "lab.txt"
    lock.write_text("swarm-supervisor==0.0.1")
    write_host(rig, "127.0.0.1:1", python_env=f'"{lock}"')
    with trio.fail_after(LIMIT_S):
        started = await rig.run(rig.script({"agent": "/root", "text": "done"}), *HOSTS)
        ended = await started.wait_end()
    assert ended.code == 2
    assert f"has swarm-supervisor 0.0.1, and this is {VERSION}" in ended.err


def test_the_actor_needs_no_swarm_where_it_runs(tmp_path):
    ray.cloudpickle.register_pickle_by_value(node_holder)
    (tmp_path / "actor").write_bytes(ray.cloudpickle.dumps(node_holder.NodeHolder))
    program = (
        "import sys; sys.modules['swarm'] = None; import pickle, ray\n"
        "holder = pickle.load(open(sys.argv[1], 'rb'))()\n"
        "try: holder.install('{\"uv.lock\": \"\"}', '/none/python')\n"
        "except RuntimeError as error: print(error)\n"
    )
    said = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "actor")], capture_output=True, text=True,
        env={"PATH": "/none", "XDG_CACHE_HOME": str(tmp_path)}, check=True,
    )  # fmt: skip
    assert said.stdout.strip() == "this lock is uv's, and there is no uv: install it there"
