"""Files that swarm itself opens, changed by a command between the decision and the use."""

from collections.abc import Sequence

from play import Call, Play, command
from scene import SECRET, Scene

_ROWS = "name\none\n"


def _job(table: str, output: str) -> Call:
    return {
        "name": "spawn_agents_on_csv",
        "arguments": {
            "csv_path": table, "instruction": "do {name}", "output_csv_path": output,
            "max_runtime_seconds": 20,
        },
    }  # fmt: skip


def _table(scene: Scene) -> None:
    (scene.project / "rows.csv").write_text(_ROWS, "utf-8")
    (scene.project / "out").mkdir()
    (scene.home / ".bashrc").write_text("mine\n", "utf-8")


def _swapped_output(scene: Scene) -> Sequence[Call]:
    """The folder is swapped again and again while the job's worker runs."""
    swap = f"mv out o2; ln -s {scene.home} out; sleep 0.02; rm out; mv o2 out; sleep 0.02"
    loop = f"(for i in $(seq 400); do {swap}; done) >/dev/null 2>&1"
    return [command(loop, yield_time_ms=250), *[_job("rows.csv", "out/.bashrc")] * 3]


def _bashrc(scene: Scene) -> str:
    same = (scene.home / ".bashrc").read_text("utf-8") == "mine\n"
    return "" if same else "the person's .bashrc was replaced by the results of a job"


def _hidden_table(scene: Scene) -> None:
    folder = scene.state / "state" / "runs" / "older"
    folder.mkdir(parents=True)
    (folder / "rows.csv").write_text("name\nwords-of-an-older-run\n", "utf-8")


def _leaked(scene: Scene) -> str:
    return "a hidden file was read as a table" if "words-of-an-older-run" in scene.said else ""


def _ended(scene: Scene) -> str:
    return "the run did not end" if scene.exit_code < 0 else ""


def _guide(scene: Scene) -> None:
    (scene.project / "AGENTS.md").symlink_to(scene.secret_file)


def _told(scene: Scene) -> str:
    folder = scene.state / "state" / "runs"
    texts = [path.read_text("utf-8", "replace") for path in folder.rglob("*.jsonl")]
    return "a file outside entered the prompt" if any(SECRET in one for one in texts) else ""


PLAYS = (
    Play(
        name="the output folder of a batch job becomes a link to the home",
        prepare=_table, calls=_swapped_output, escaped=_bashrc, fast=True,
    ),
    Play(
        name="a batch job's output is a protected name",
        prepare=_table,
        calls=lambda scene: [_job("rows.csv", ".git/hooks/pre-commit"), _job("rows.csv", ".swarm")],
        escaped=lambda scene: "it was made" if (scene.project / ".swarm").exists()
        or (scene.project / ".git/hooks/pre-commit").exists() else "",
    ),
    Play(
        name="a batch job's table is a link to a file of another run",
        prepare=_hidden_table,
        calls=lambda scene: [
            command(f"ln -s {scene.state}/state/runs/older/rows.csv t.csv"), _job("t.csv", "o.csv"),
        ],
        escaped=_leaked, fast=True,
    ),
    Play(
        name="a batch job's table is a pipe, or a device without end",
        calls=lambda scene: [
            command("mkfifo p.csv; ln -s /dev/zero z.csv"),
            _job("p.csv", "o.csv"), _job("z.csv", "o.csv"), _job("/proc/self/environ", "o.csv"),
        ],
        escaped=_ended, fast=True,
    ),
    Play(
        name="AGENTS.md is a link to a file outside of the project",
        prepare=_guide, calls=lambda scene: [command("true")], escaped=_told, fast=True,
    ),
)  # fmt: skip
