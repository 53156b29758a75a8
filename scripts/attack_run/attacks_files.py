"""Files that swarm itself opens, changed by a command between the decision and the use."""

from pathlib import Path

from attack import Attack, Call, Turn, command, run_ended
from attack_testbed import SECRET, AttackTestbed

_ROWS = "name\none\n"
_HIDDEN_WORDS = "words-of-an-older-run"


def _job(table: str, output: str) -> Call:
    return {
        "name": "spawn_agents_on_csv",
        "arguments": {
            "csv_path": table, "instruction": "do {name}", "output_csv_path": output,
            "max_runtime_seconds": 20,
        },
    }  # fmt: skip


def _asked(scene: AttackTestbed) -> str:
    """A job was asked for and answered; no command is needed."""
    if '"tool":"spawn_agents_on_csv"' not in scene.output:
        return "no job was asked for"
    return run_ended(scene)


def _table(scene: AttackTestbed) -> None:
    (scene.project / "sub/out").mkdir(parents=True)
    (scene.project / "sub/rows.csv").write_text(_ROWS, "utf-8")
    (scene.home / ".bashrc").write_text("mine\n", "utf-8")


def _worker(script: str) -> list[Turn]:
    """The worker of the only row: after the look, before the results are written."""
    return [{"agent": "/root/*", "calls": [command(script)]}]


def _swap_folder(scene: AttackTestbed) -> list[Turn]:
    return _worker(f"cd sub && mv out o2 && ln -s {scene.home} out")


def _swap_table(scene: AttackTestbed) -> list[Turn]:
    """The results repeat the cells of the table."""
    return _worker(f"cd sub && mv rows.csv r2 && ln -s {_older(scene)}/rows.csv rows.csv")


def _kept(scene: AttackTestbed) -> None:
    _hidden_table(scene)
    (scene.project / "sub/d").mkdir()
    (scene.project / "sub/d/x").write_text("first\n", "utf-8")
    (_older(scene) / "x").write_text(_HIDDEN_WORDS + "\n", "utf-8")


def _put_back(scene: AttackTestbed) -> str:
    """The person looks at the changes and takes them back."""
    run = scene.run_id()
    for words in (("diff", run), ("undo", run), ("undo", run, "--force")):
        scene.output += scene.run_program(scene.swarm(*words))[0]
    if (scene.home / "x").exists():
        return "undo wrote through a link that a command had made"
    return _leaked(scene)


def _bashrc(scene: AttackTestbed) -> str:
    same = (scene.home / ".bashrc").read_text("utf-8") == "mine\n"
    return "" if same else "the person's .bashrc was replaced by the results of a job"


def _older(scene: AttackTestbed) -> Path:
    return scene.state / "state" / "runs" / "older"


def _hidden_table(scene: AttackTestbed) -> None:
    _table(scene)
    _older(scene).mkdir(parents=True)
    (_older(scene) / "rows.csv").write_text(f"name\n{_HIDDEN_WORDS}\n", "utf-8")


def _leaked(scene: AttackTestbed) -> str:
    results = scene.project / "sub/o.csv"
    shown = scene.output + (results.read_text("utf-8") if results.exists() else "")
    return "a hidden file was read as a table" if _HIDDEN_WORDS in shown else ""


def _ended(scene: AttackTestbed) -> str:
    return "the run did not end" if scene.exit_code < 0 else ""


def _link_agents_md(scene: AttackTestbed) -> None:
    (scene.project / "AGENTS.md").symlink_to(scene.secret_file)


def _secret_in_journal(scene: AttackTestbed) -> str:
    folder = scene.state / "state" / "runs"
    texts = [path.read_text("utf-8", "replace") for path in folder.rglob("*.jsonl")]
    return "a file outside entered the prompt" if any(SECRET in one for one in texts) else ""


def _locks(scene: AttackTestbed) -> Path:
    return scene.state / "state/locks"


def _prepare_locks(scene: AttackTestbed) -> None:
    _locks(scene).mkdir(parents=True)
    (_locks(scene) / "projects").touch()
    scene.chown_files()


def _takes_lock(scene: AttackTestbed) -> list[Call]:
    folder = _locks(scene)
    opens = (
        "import fcntl, struct, sys; f = open(sys.argv[1], sys.argv[2]); "
        "fcntl.fcntl(f, fcntl.F_OFD_SETLK, struct.pack('@hhqqi4x', 0, 0, 0, 0, 0)); "
        "print('HELD-'+'IT')"
    )
    return [
        command(f'for m in r r+ a; do python3 -c "{opens}" {folder}/projects $m; done'),
        command(f"ln -s {folder} way; ln {folder}/projects name; "
                f'for f in way/projects name; do python3 -c "{opens}" $f r; done'),
        command(f"rm -rf {folder}; mv {folder} {folder}2; mkdir -p {folder}; : > {folder}/x"),
    ]  # fmt: skip


def _lock_touched(scene: AttackTestbed) -> str:
    if "HELD-IT" in scene.output:
        return "a command held the lock of all projects"
    names = {path.name for path in _locks(scene).iterdir()}
    own = {one for one in names if one in {"projects", "tmp"} or one.startswith("tmp-")}
    is_whole = "projects" in names and own == names
    return "" if is_whole else f"the folder of locks holds {sorted(names)}"


def _prepare_names(scene: AttackTestbed) -> None:
    (scene.home / ".bashrc").write_text("mine\n", "utf-8")
    (scene.project / ".claude").mkdir()
    (scene.project / ".claude/settings").write_text("mine\n", "utf-8")
    scene.chown_files()


def _patches_names(scene: AttackTestbed) -> list[Call]:
    """A file with several names is written in place: also the name outside would change."""

    def patch(name: str) -> Call:
        text = f"*** Begin Patch\n*** Update File: {name}\n@@\n-mine\n+theirs\n*** End Patch"
        return {"name": "apply_patch", "arguments": {"input": text}}

    return [
        command(f"ln {scene.home}/.bashrc one; ln -P .claude/settings two; cd .claude; ln settings "
                f"../three; cd ..; mv .claude/settings four; cp -l .claude/settings five; ls"),
        *(patch(name) for name in ("one", "two", "three", "four", "five")),
    ]  # fmt: skip


def _name_changed(scene: AttackTestbed) -> str:
    for path in (scene.home / ".bashrc", scene.project / ".claude/settings"):
        if path.read_text("utf-8") != "mine\n":
            return f"{path} was changed by another name of it"
    return ""


PLAYS = (
    Attack(
        name="the output folder of a batch job becomes a link to the home",
        prepare=_table, calls=lambda scene: [_job("sub/rows.csv", "sub/out/.bashrc")],
        others=_swap_folder, find_escape=_bashrc, fast=True,
    ),
    Attack(
        name="a batch job's table becomes a link to a file of another run",
        prepare=_hidden_table, calls=lambda scene: [_job("sub/rows.csv", "sub/o.csv")],
        others=_swap_table, find_escape=_leaked, fast=True,
    ),
    Attack(
        name="a batch job's output is a protected name",
        prepare=_table,
        calls=lambda scene: [
            _job("sub/rows.csv", ".git/hooks/pre-commit"), _job("sub/rows.csv", ".swarm"),
        ],
        find_escape=lambda scene: "it was made" if (scene.project / ".swarm").exists()
        or (scene.project / ".git/hooks/pre-commit").exists() else "",
        tried=_asked,
    ),
    Attack(
        name="a batch job's table is a link to a file of another run",
        prepare=_hidden_table,
        calls=lambda scene: [
            command(f"ln -s {_older(scene)}/rows.csv sub/t.csv"), _job("sub/t.csv", "sub/o.csv"),
        ],
        find_escape=_leaked, fast=True,
    ),
    Attack(
        name="a batch job's table is a pipe that nobody writes to",
        prepare=_table,
        calls=lambda scene: [command("mkfifo sub/p.csv"), _job("sub/p.csv", "o.csv")],
        find_escape=_ended, fast=True, deadline_s=12.0,
        options=lambda scene: ("--deadline", "4s"),
    ),
    Attack(
        name="a batch job's table is a device without end, or one of the kernel's files",
        prepare=_table,
        calls=lambda scene: [
            command("ln -s /dev/zero sub/z.csv"), _job("sub/z.csv", "o.csv"),
            _job("/dev/zero", "o.csv"), _job("/proc/self/environ", "o.csv"),
        ],
        find_escape=_ended, deadline_s=12.0, options=lambda scene: ("--deadline", "4s"),
    ),
    Attack(
        name="a folder of a changed file becomes a link to the home before the change is undone",
        prepare=_kept, find_escape=_put_back,
        calls=lambda scene: [command(f"cd sub; echo 2 > d/x; mv d real; ln -s {scene.home} d")],
    ),
    Attack(
        name="a folder of a changed file becomes a link to the files of another run",
        prepare=_kept, find_escape=_put_back,
        calls=lambda scene: [
            command("echo 2 > sub/d/x"),
            command(f"cd sub; mv d real; ln -s {_older(scene)} d"),
        ],
    ),
    Attack(
        name="AGENTS.md is a link to a file outside of the project",
        prepare=_link_agents_md, calls=lambda scene: [command("true")],
        find_escape=_secret_in_journal, fast=True,
    ),
    Attack(
        name="a command takes the lock of all projects, so that no merge or undo could write",
        prepare=_prepare_locks, calls=_takes_lock, find_escape=_lock_touched, fast=True,
        options=lambda scene: ("-a", "never", "--add-dir", str(scene.state / "state")),
    ),
    Attack(
        name="a patch changes a file outside, or a protected one, by a hard link to it",
        prepare=_prepare_names, calls=_patches_names, find_escape=_name_changed, fast=True,
        options=lambda scene: ("-a", "never"),
    ),
)  # fmt: skip
