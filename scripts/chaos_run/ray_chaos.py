"""`scripts/chaos --ray`: workers on three machines of a real Ray cluster, while something breaks.

Each play is one run: 24 workers in copies on the machines, each with three commands that write a
file, one of them a test; their work is merged at the end. In mid-run one thing breaks. Then it is
checked that nothing is lost, doubled or left.

Exit code 0: no promise was broken; 1: one was; 2: this machine cannot play it.
"""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parent.parent / "ray_net"))  # scripts, not packages

from ray_testbed import (
    ADDRESS,
    Machine,
    command_line,
    copy_of_swarm,
    enter_namespaces,
    open_cluster,
    pids,
    title_of,
    until,
)

from swarm.mailbox.protocol.events import CallEnded
from swarm.mailbox.protocol.host_records import HostDrained, HostJoined, HostLeft
from swarm.mailbox.protocol.items import FunctionCall
from swarm.mailbox.protocol.records import AgentSpawned, ItemRecorded, Record, RunCompleted
from swarm.supervisor.journal.journal_reader import read_records
from swarm.supervisor.runs.paths import find_user_paths, paths_of_run

_SWARM = str(Path(sys.executable).with_name("swarm"))
_WORKERS, _STEPS, _SLOTS = 24, 3, 8
_STEP = re.compile(r"echo (\d)")
_BWRAPS = ("/usr/bin/bwrap", "/bin/bwrap")
_RUN_LIMIT_S, _GONE_LIMIT_S = 240.0, 60.0


class Stage:
    """One play's cluster, project and run."""

    def __init__(self, folder: Path, machines: list[Machine]) -> None:
        self.folder, self.machines = folder, machines
        self.home, self.project = folder / "home", folder / "project"
        self.environment = {**os.environ, "SWARM_HOME": str(self.home), "SHELL": "/bin/sh"}
        self.supervisor: subprocess.Popen[bytes] | None = None
        self.joined = 3  # machines that take part from the beginning
        self.ready = 3  # machines on which agents can work
        self.pause_s = 1  # of each command

    def prepare(self) -> None:
        """Write the configuration, the project and the scripted model."""
        self.home.mkdir()
        self.project.mkdir()
        (self.home / "config.toml").write_text(
            f'[hosts.lab]\nray = "{ADDRESS}"\nslots = {_SLOTS}\nlabels = {{side = "away"}}\n'
        )
        (self.project / "text").write_text("text\n")
        (self.folder / "script.yaml").write_text(json.dumps({"turns": list(_turns(self.pause_s))}))

    def start(self, *words: str) -> None:
        words = words or (
            "run", "-p", "begin", "--provider", f"scripted:{self.folder / 'script.yaml'}",
            "-s", "workspace-write", "--hosts", "lab", "--max-agents", str(_WORKERS + 1),
            "--merge", "auto",
        )  # fmt: skip
        with (self.folder / "said").open("ab") as said:
            self.supervisor = subprocess.Popen(
                [_SWARM, *words, "--plain"], cwd=self.project, env=self.environment,
                stdin=subprocess.DEVNULL, stdout=said, stderr=said,
            )  # fmt: skip

    @property
    def run_id(self) -> str:
        return next((self.home / "state" / "runs").iterdir()).name

    def records(self) -> list[Record]:
        with suppress(OSError, StopIteration):
            places = find_user_paths({"SWARM_HOME": str(self.home)})
            return list(read_records(paths_of_run(places, self.run_id)))
        return []

    def bodies(self, kind: type) -> list[object]:
        return [one.body for one in self.records() if isinstance(one.body, kind)]

    def wait_working(self) -> None:
        """Until a dozen workers are there and a dozen of their calls have ended."""
        until(lambda: len(self.bodies(HostJoined)) >= self.ready, 60)
        until(lambda: self._workers() >= _WORKERS // 2 and self._calls() >= _WORKERS // 2, 120)

    def _workers(self) -> int:
        return len({one.path for one in self.bodies(AgentSpawned)}) - 1  # type: ignore[attr-defined]

    def _calls(self) -> int:
        return len([one for one in self.records() if isinstance(one.body, CallEnded)])

    def kill_one(self, words: str, machine: Machine | None = None) -> None:
        """SIGKILL the first process that is called so, there or anywhere."""
        found = machine.processes(words) if machine else _with_words(words)
        if not found:
            raise RuntimeError(f"nothing is called {words!r}")
        os.kill(found[0], signal.SIGKILL)

    def resume(self) -> None:
        self.start("resume", self.run_id)


class Play(NamedTuple):
    """What breaks, and how it is told."""

    name: str
    what: str
    act: Callable[[Stage], None]
    prepare: Callable[[Stage], None] = lambda stage: None


def _turns(pause_s: int) -> Iterator[dict[str, object]]:
    def call(name: str, **arguments: object) -> dict[str, object]:
        return {"name": name, "arguments": arguments}

    names = [f"w{number}" for number in range(_WORKERS)]
    yield {"agent": "/root", "calls": [
        call("spawn_agent", task_name=name, message=f"do {name}", fork_turns="none")
        for name in names
    ]}  # fmt: skip
    waits = {"targets": names, "timeout_ms": 200_000, "for": "all"}
    yield {"agent": "/root", "calls": [call("wait_agent", **waits)]}
    yield {"agent": "/root", "text": "done", "repeat": "forever"}
    for name in names:
        for step in range(_STEPS):
            cmd = f"sleep {pause_s}; echo {step} >> of-{name}-{step}; test -s of-{name}-{step}"
            yield {"agent": f"/root/{name}", "calls": [call("exec_command", cmd=cmd)]}
        yield {"agent": f"/root/{name}", "text": f"{name} is done"}


def _with_words(words: str) -> list[int]:
    found = []
    for pid in pids():
        with suppress(OSError):
            if words in command_line(pid):
                found.append(pid)
    return found


# --- the plays ----------------------------------------------------------------------------------


def _cut_for(seconds: float) -> Callable[[Stage], None]:
    def act(stage: Stage) -> None:
        stage.machines[0].cut()
        time.sleep(seconds)
        stage.machines[0].mend()

    return act


def _kill_supervisor(stage: Stage) -> None:
    assert stage.supervisor is not None
    stage.supervisor.kill()
    stage.supervisor.wait()
    until(lambda: not _of_run(stage), _GONE_LIMIT_S)  # before it goes on
    stage.resume()


def _kill_raylet(stage: Stage) -> None:
    stage.machines[1].kill_raylet()
    time.sleep(3)
    stage.machines[1].join()


def _fill_disk(stage: Stage) -> None:
    """Leave 100 MiB of the file system that holds what a machine keeps."""
    home = stage.machines[2].home
    free = os.statvfs(home).f_bavail * os.statvfs(home).f_frsize
    with (home / "ballast").open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, free - (100 << 20))
    until(lambda: stage.bodies(HostDrained), 60)


def _small_disk(stage: Stage) -> None:
    stage.pause_s = 5  # it is drained after eight seconds
    home = str(stage.machines[2].home)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=600m", "tmpfs", home], check=True)


def _other_version(stage: Stage) -> None:
    other = copy_of_swarm(stage.folder / "other", "0.0.9")
    stage.machines[2].environment["PYTHONPATH"] = str(other)
    stage.ready = 2


def _other_clock(stage: Stage) -> None:
    """An hour ahead, for all that is written in Python there."""
    shim = stage.folder / "shim"
    shim.mkdir()
    (shim / "sitecustomize.py").write_text(
        "import time\n_real = time.time\ntime.time = lambda: _real() + 3600\n"
    )
    stage.machines[2].environment["PYTHONPATH"] = str(shim)


def _slow_wires(stage: Stage) -> None:
    """As over a bad line: 50 ms there and back, and every fiftieth packet is lost."""
    for machine in stage.machines:
        machine.slow_down(25.0, 0.02)


def _without_overlays(stage: Stage) -> None:
    """Without bubblewrap: agents there work in folders, which Landlock holds."""
    masks = "".join(f"mount --bind /dev/null {one}; " for one in _BWRAPS if Path(one).exists())
    stage.machines[2].prefix = [
        "unshare", "--mount", "--propagation", "private", "sh", "-c", f'{masks}exec "$@"', "sh",
    ]  # fmt: skip


def _two_at_first(stage: Stage) -> None:
    stage.joined = stage.ready = 2


def _nothing(stage: Stage) -> None:
    return


PLAYS = (
    Play("nothing", "nothing breaks", _nothing),
    Play("agent", "kill -9 of an agent's process", lambda stage: stage.kill_one("swarm: /root/w")),
    Play("fork-server", "kill -9 of a machine's fork-server",
         lambda stage: stage.kill_one("swarm: fork-server", stage.machines[0])),
    Play("node", "kill -9 of a machine's node",
         lambda stage: stage.kill_one("swarm: node", stage.machines[0])),
    Play("actor", "kill -9 of Ray's actor",
         lambda stage: stage.kill_one("ray::NodeHolder", stage.machines[0])),
    Play("raylet", "kill -9 of a raylet, which comes back", _kill_raylet),
    Play("driver", "kill -9 of the process that drives machines",
         lambda stage: stage.kill_one("swarm: hosts")),
    Play("gateway", "kill -9 of the gateway", lambda stage: stage.kill_one("swarm: gateway")),
    Play("supervisor", "kill -9 of the supervisor, then a resume", _kill_supervisor),
    Play("cut-5", "a machine cannot be reached for 5 s", _cut_for(5.0)),
    Play("cut-60", "a machine cannot be reached for 60 s", _cut_for(60.0)),
    Play("added", "a third machine joins", lambda stage: stage.machines[2].join(), _two_at_first),
    Play("full", "a machine's disk fills up: it is drained", _fill_disk, _small_disk),
    Play("version", "a machine has another version of swarm", _nothing, _other_version),
    Play("slow", "every packet takes 25 ms longer each way, and 2 % are lost", _nothing,
         _slow_wires),
    Play("folders", "a machine has no overlays, and its node is killed there",
         lambda stage: stage.kill_one("swarm: node", stage.machines[2]), _without_overlays),
    Play("clock", "a machine's clock is an hour ahead", _nothing, _other_clock),
)  # fmt: skip


def play_once(play: Play) -> tuple[list[str], dict[str, object]]:
    """One play; what promises it broke, and its figures."""
    folder = Path(tempfile.mkdtemp(prefix="ray-chaos-"))
    with open_cluster(folder, 3) as machines:
        stage = Stage(folder, machines)
        play.prepare(stage)
        stage.prepare()
        for machine in machines[: stage.joined]:
            machine.join()
        began = time.monotonic()
        stage.start()
        try:
            stage.wait_working()
            play.act(stage)
            assert stage.supervisor is not None
            stage.supervisor.wait(_RUN_LIMIT_S)
        except (TimeoutError, RuntimeError, subprocess.TimeoutExpired) as error:
            broken = [f"{type(error).__name__}: {error}"]
        else:
            broken = list(_broken_promises(stage))
        took_s = time.monotonic() - began
        facts = _facts(stage) | {"seconds": round(took_s, 1), "evidence": str(folder)}
        with suppress(OSError):
            assert stage.supervisor is not None
            stage.supervisor.kill()
            stage.supervisor.wait()
    subprocess.run(["umount", str(folder / "machine3")], check=False, capture_output=True)
    return broken, facts


def _broken_promises(stage: Stage) -> Iterator[str]:
    assert stage.supervisor is not None
    if stage.supervisor.returncode != 0:
        yield f"the run ended with {stage.supervisor.returncode}"
    if not stage.bodies(RunCompleted):
        yield "no end is in the journal"
    done = _calls_done(stage)
    for worker in range(_WORKERS):
        for step in range(_STEPS):
            file = stage.project / f"of-w{worker}-{step}"
            lines = file.read_text().count("\n") if file.exists() else 0
            if lines > 1:
                yield f"{file.name} was written {lines} times"
            if lines == 0 and (f"/root/w{worker}", step) in done:
                yield f"{file.name} is lost, though its command is said to be done"
    try:
        until(lambda: not _of_run(stage), _GONE_LIMIT_S)
    except TimeoutError:
        yield f"left: {[command_line(pid) for pid in _of_run(stage)][:5]}"
    if left := _actors_left():
        yield f"actors are left: {left}"
    # What was killed could not tidy up: the next node on the machine does it.
    subprocess.run([_SWARM, "hosts", "probe"], env=stage.environment, cwd=stage.folder, check=False,
                   capture_output=True)  # fmt: skip
    for machine in stage.machines:
        kept = machine.home / "state" / "nodes"
        if kept.is_dir() and any(one.is_dir() for one in kept.iterdir()):
            yield f"files are left on machine {machine.number}"


def _calls_done(stage: Stage) -> set[tuple[str, int]]:
    """Agents' commands that ended well, by the journal."""
    asked: dict[str, tuple[str, int]] = {}
    done: set[tuple[str, int]] = set()
    for record in stage.records():
        match record.body:
            case ItemRecorded(item=FunctionCall(name="exec_command") as call):
                step = int(_STEP.findall(call.arguments)[0])
                asked[record.agent + call.call_id] = (record.agent, step)
            case CallEnded(status="completed", exit_code=0, tool="exec_command") as ended:
                done.add(asked[record.agent + ended.call_id])
            case _:
                continue
    return done


def _of_run(stage: Stage) -> list[int]:
    """Processes of the run, on any machine."""
    short = stage.run_id[-8:]
    return [pid for pid in _with_words("swarm: ") if short in title_of(pid)]


def _actors_left() -> str:
    """Names of actors that Ray still has."""
    code = (
        "import ray, sys; ray.init(address=sys.argv[1], log_to_driver=False, namespace='swarm');"
        "print('ACTORS', *ray.util.list_named_actors())"
    )
    said = subprocess.run(
        [sys.executable, "-c", code, ADDRESS], capture_output=True, text=True, check=False
    )
    lines = [line for line in said.stdout.splitlines() if line.startswith("ACTORS")]
    return lines[0].removeprefix("ACTORS").strip() if lines else "nobody answers"


def _facts(stage: Stage) -> dict[str, object]:
    spawned = stage.bodies(AgentSpawned)
    return {
        "starts": len(spawned),
        "machines": len(stage.bodies(HostJoined)),
        "lost": len(stage.bodies(HostLeft)),
        "merged": len(list(stage.project.glob("of-*"))),
    }


def main() -> int:
    parser = argparse.ArgumentParser(prog="chaos --ray", description=__doc__)
    parser.add_argument("--only", action="append", choices=[play.name for play in PLAYS])
    parser.add_argument("--json", action="store_true", help="one line for each play")
    options = parser.parse_args()
    try:
        enter_namespaces()
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"chaos: {error}", file=sys.stderr)
        return 2
    failed = 0
    for play in PLAYS:
        if options.only and play.name not in options.only:
            continue
        broken, facts = play_once(play)
        failed += bool(broken)
        if options.json:
            print(json.dumps({"play": play.name, "broken": broken, **facts}), flush=True)
            continue
        told = ", ".join(f"{value} {name}" for name, value in facts.items() if name != "evidence")
        print(f"{play.name}: {play.what}: {'BROKEN' if broken else 'ok'} ({told})", flush=True)
        for words in broken[:10]:
            print(f"  {words}\n  evidence: {facts['evidence']}", flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
