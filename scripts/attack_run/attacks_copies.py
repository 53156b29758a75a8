"""Agents in copies of the project: nothing that they write reaches the project before a merge.

With bubblewrap a copy is an overlay at the project's path; on Landlock it is a folder of its own.
"""

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from attack import Attack, Call, command, commands_ran
from attack_testbed import AttackTestbed

_ROLE = """name = "copied"
description = "Works in a copy."
developer_instructions = "Work."
isolation = "copy"
"""


def _state(folder: Path) -> dict[str, str]:
    """What everything below a folder is, without times."""
    found: dict[str, str] = {}
    for root, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = Path(root, name)
            facts = path.lstat()
            if path.is_symlink():
                text = f"link {path.readlink()}"
            elif path.is_file():
                text = hashlib.sha256(path.read_bytes()).hexdigest()
            else:
                text = ""
            found[str(path.relative_to(folder))] = f"{facts.st_mode:o} {text}"
    return found


def _prepare(scene: AttackTestbed) -> None:
    roles = scene.state / "agents"
    roles.mkdir()
    (roles / "copied.toml").write_text(_ROLE, "utf-8")
    write_project(scene)


def _options(_: AttackTestbed) -> Sequence[str]:
    return ("--role", "copied", "--reviewer", "nobody")


def _whole(_: AttackTestbed) -> Sequence[str]:
    return ("--isolate", "--reviewer", "nobody")


def write_project(scene: AttackTestbed) -> None:
    """Files to change, and what the project is then, for `project_changed`."""
    (scene.project / "sub").mkdir()
    (scene.project / "sub/file").write_text("x\n", "utf-8")
    (scene.project / "one").write_text("one\n", "utf-8")
    scene.chown_files()
    (scene.folder / "before.json").write_text(json.dumps(_state(scene.project)), "utf-8")


def project_changed(scene: AttackTestbed) -> str:
    """Whether anything was written to the project, or outside of copies; "" if not."""
    before = json.loads((scene.folder / "before.json").read_text("utf-8"))
    now = _state(scene.project)
    changed = sorted(name for name in {*before, *now} if before.get(name) != now.get(name))
    if changed:
        return f"the project was changed before any merge: {', '.join(changed[:8])}"
    if any(path.name == "escaped" for path in scene.folder.rglob("escaped")
           if "copies" not in path.parts):  # fmt: skip
        return "a file came to be outside of the copy"
    return ""


def _by_paths(scene: AttackTestbed) -> Sequence[Call]:
    name = scene.project.name
    return [
        command(f"echo x > ../{name}/escaped; echo x > {scene.project}/escaped"),
        command(f"ln -s {scene.project} here; echo x > here/escaped; echo x > here/one"),
        command("ln one hard; echo x >> hard; ln sub/file hard2; echo x >> hard2"),
        command(f"mv sub sub2; ln -s {scene.project} sub; echo x > sub/escaped; rm -rf sub2"),
        command("cp -al . ../twin 2>/dev/null; chmod -R 777 .; touch -d 1999-01-01 one; rm -f one"),
        command(f"cd /; echo x > .{scene.project}/escaped; echo x > //{scene.project}/escaped"),
        command("exec 3<.; cd ..; echo x > /proc/self/fd/3/escaped; echo x > /dev/fd/3/one"),
    ]


def _by_processes(scene: AttackTestbed) -> Sequence[Call]:
    project = scene.project
    return [
        command(
            f"for p in /proc/[0-9]*; do echo x > $p/root{project}/escaped; echo x > $p/cwd/escaped;"
            " done 2>/dev/null"
        ),
        command(f"umount {project}; umount -l {project}; echo x > {project}/escaped"),
        command(
            f"unshare -Urm sh -c 'umount {project}; mount --bind / /mnt; echo x > "
            f"/mnt{project}/escaped; mount --move {project} /mnt; echo x > {project}/escaped'"
        ),
        command(
            "for p in /proc/[0-9]*; do nsenter -t ${p#/proc/} -m -U sh -c "
            f"'umount {project}; echo x > {project}/escaped'; done 2>/dev/null"
        ),
        command(f"mount -t overlay o -o lowerdir={project},upperdir=/tmp,workdir=/tmp {project}"),
        command("grep overlay /proc/self/mountinfo | tr ' ,' '\\n\\n' | grep dir= | "
                "while read d; do echo x > ${d#*=}/escaped; done 2>/dev/null"),
    ]  # fmt: skip


def _by_git(scene: AttackTestbed) -> Sequence[Call]:
    project = scene.project
    who = "git -c user.name=a -c user.email=a@b"
    return [
        command(f"git config core.worktree {project}; git config core.hooksPath /tmp; "
                f"GIT_DIR={project}/.git git config alias.x '!touch escaped'"),
        command(f"echo x > one; {who} commit -qam x; git update-ref refs/heads/x HEAD; "
                f"GIT_DIR={project}/.git GIT_WORK_TREE=/tmp git checkout -f HEAD -- ."),
        command(f"git init -q nested; cd nested; git config core.worktree {project}; echo y > f; "
                f"{who} add f; git checkout -f -- ."),
        command(f"git init -q --separate-git-dir={project}/.git/modules/x sub3; "
                f"git worktree add -f {project}/../escaped HEAD; git submodule add ./ sub4"),
        command("touch .git/escaped; echo x > .git/HEAD; rm -f .git/index; mv .git g; ls"),
    ]  # fmt: skip


_PLANTED = ("deep/.git/hooks/post-checkout", "deep/.git/config", "a/__pycache__/m.pyc")


def _by_merge(scene: AttackTestbed) -> Sequence[Call]:
    home = scene.home
    plant = "; ".join(f"mkdir -p $(dirname {name}); echo x > {name}" for name in _PLANTED)
    return [
        command(plant),
        command(f"rm -rf sub; ln -s {home} sub; ln -s {home}/escaped out; mkfifo pipe"),
        command("for n in .swarm .claude .agents .codex .aws; do mkdir -p $n; echo x > $n/x; done"),
        command(
            "echo fine > fine; chmod 4755 fine; mkdir locked; echo x > locked/x; chmod 0 locked"
        ),
    ]


def _merged_wrongly(scene: AttackTestbed) -> str:
    """Merge by the person's command, and look where it wrote."""
    if words := project_changed(scene):
        return words
    said, _ = scene.run_program(scene.swarm("merge", scene.run_id(), "--yes"))
    wrong = [name for name in (*_PLANTED, ".swarm", ".claude", ".agents", ".codex", ".aws", "pipe")
             if (scene.project / name).exists()]  # fmt: skip
    if wrong:
        return f"a merge wrote {', '.join(wrong)}"
    outside = [path for path in scene.home.rglob("*") if path.name in ("escaped", "file")]
    if outside:
        return f"a merge wrote through a link: {outside[0]}"
    fine = scene.project / "fine"
    if fine.exists() and fine.stat().st_mode & 0o6000:
        return "a merge made a file that runs as its owner"
    return "" if "cannot be read" in said or "merged;" in said else f"the merge said {said[-300:]}"


def honest_work(_: AttackTestbed) -> Sequence[Call]:
    """What an agent is there for."""
    return [command("echo two >> one; rm sub/file; echo n > n; git status -s; cat one")]


def not_merged(scene: AttackTestbed) -> str:
    """Why `honest_work` is not in the project after a merge; "" if it is."""
    if words := project_changed(scene):
        return words
    said, code = scene.run_program(scene.swarm("merge", scene.run_id(), "--yes"))
    one = (scene.project / "one").read_text("utf-8")
    if code or one != "one\ntwo\n" or (scene.project / "sub/file").exists():
        return f"the merge did not bring the change in: {said[-300:]}"
    return ""


def _by_tests(scene: AttackTestbed) -> Sequence[Call]:
    """Tests that a person has run before the merge: they are the agent's own code."""
    project = scene.project
    lines = [
        f"echo x > ../{scene.project.name}/escaped",
        f"for p in /proc/[0-9]*; do echo x > $p/root{project}/escaped; echo x > $p/cwd/one; done",
        f"umount {project}; umount -l {project}; echo x > {project}/escaped",
        f"unshare -Urm sh -c 'umount {project}; echo x > {project}/escaped'",
        f"ln -s {scene.folder} out; echo x > out/escaped; echo x > {scene.state}/escaped",
        "echo x > $HOME/escaped; echo tried",
    ]
    script = "\n".join(lines)
    return [command(f"cat > tests.sh <<'END'\n{script}\nEND"), command("echo two >> one")]


def _tests_escaped(scene: AttackTestbed) -> str:
    words = ("merge", scene.run_id(), "--yes", "--run", "sh ./tests.sh 2>/dev/null; exit 7")
    said, code = scene.run_program(scene.swarm(*words))
    if code != 1 or "exit code 7" not in said or "tried" not in said:
        return f"the tests did not run in the merged copy: {said[-300:]}"
    return project_changed(scene)


def _play(
    name: str,
    calls: Callable[[AttackTestbed], Sequence[Call]],
    find_escape: Callable[[AttackTestbed], str] = project_changed,
    *,
    fast: bool = False,
    must_work: bool = False,
    options: Callable[[AttackTestbed], Sequence[str]] = _options,
) -> Attack:
    return Attack(
        name=name,
        calls=calls,
        find_escape=find_escape,
        prepare=_prepare,
        options=options,
        tried=commands_ran,
        fast=fast,
        must_work=must_work,
    )


PLAYS = (
    _play("An agent in a copy writes by other paths, links and hard links", _by_paths, fast=True),
    _play("It goes by other processes, mounts and the layers themselves", _by_processes),
    _play("It has git write: core.worktree, GIT_DIR, submodules, worktrees", _by_git),
    _play("What it plants in its layer is written by a merge", _by_merge, _merged_wrongly),
    _play(
        "Its tests, run before the merge, write outside of the merged copy",
        _by_tests,
        _tests_escaped,
    ),
    _play("Its honest work is merged", honest_work, not_merged, must_work=True, fast=True),
    _play(
        "A run that is one copy writes by other paths, links and hard links",
        _by_paths,
        options=_whole,
    ),
    _play(
        "A run that is one copy goes by processes, mounts and layers", _by_processes, options=_whole
    ),
    _play(
        "The honest work of a run that is one copy is merged",
        honest_work,
        not_merged,
        must_work=True,
        options=_whole,
    ),
)
