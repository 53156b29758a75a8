"""Mail between agents: how long a mail takes while a thousand a second are written.

The time is from the sender's request to the arrival in the reader's inbox: through the supervisor,
where each mail is journaled before it is handed over. Written, journaled and arrived mails are
compared one by one.
"""

import json
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench_harness import HERE, journal_of, journal_records, swarm_home, team_server
from measurements import Row
from swarm_with_mail_writers import MAIL_FOLDER_VARIABLE

AGENTS = 50
_WRITERS = [sys.executable, "-P", str(HERE / "swarm_with_mail_writers.py")]


def mail_latency(seconds: int, rate: int = 1_000) -> Iterator[Row]:
    """The rows of one run in which `AGENTS` processes write `rate` mails a second in all."""
    with (
        team_server("letters", AGENTS) as server,
        swarm_home(server.url) as environment,
        tempfile.TemporaryDirectory() as cwd,
    ):
        folder = Path(cwd) / "mail"
        folder.mkdir()
        plan = {"agents": AGENTS, "rate": rate, "seconds": seconds}
        (folder / "plan").write_text(json.dumps(plan))
        found = _write(environment | {MAIL_FOLDER_VARIABLE: str(folder)}, cwd, folder, seconds)
        posted = Counter(
            record["body"]["mail"]["content"]
            for record in journal_of(environment)
            if record["body"]["type"] == "mail_posted"
            and record["body"]["mail"].get("kind", "message") == "message"
        )
    yield from _rows(found, posted, seconds)


def _write(
    environment: dict[str, str], cwd: str, folder: Path, seconds: int
) -> list[dict[str, Any]]:
    with (folder / "said").open("wb") as said:
        run = subprocess.Popen(
            [*_WRITERS, "run", "-p", "bench:root <root> Begin.", "--plain", "-s",
             "danger-full-access", "--max-agents", str(AGENTS + 1)],
            env=environment, cwd=cwd, stdin=subprocess.DEVNULL, stdout=said, stderr=said,
        )  # fmt: skip
        try:
            _wait(run, 120, lambda: _spawned(environment) > AGENTS)
            time.sleep(1.0)  # their first requests have been sent
            (folder / "go").touch()
            _wait(run, seconds + 120, lambda: len(list(folder.glob("*.json"))) == AGENTS)
        except RuntimeError as error:
            raise RuntimeError(f"{error}: {(folder / 'said').read_text()[-800:]}") from None
        finally:
            run.send_signal(signal.SIGTERM)
            run.wait(30)
    return [json.loads(path.read_text()) for path in folder.glob("*.json")]


def _wait(run: "subprocess.Popen[bytes]", limit_s: float, holds: Any) -> None:
    deadline = time.monotonic() + limit_s
    while not holds():
        if run.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError("the letters' run did not get on")
        time.sleep(0.2)


def _spawned(environment: dict[str, str]) -> int:
    try:
        records = list(journal_records(environment, "run"))
    except (OSError, ValueError):
        return 0
    return sum(record["body"]["type"] == "agent_spawned" for record in records)


def _rows(found: list[dict[str, Any]], posted: Counter[str], seconds: int) -> Iterator[Row]:
    arrived = Counter(words for one in found for words, _ in one["arrived"])
    spans = sorted(ms for one in found for _, ms in one["arrived"])
    sent = sum(one["sent"] for one in found)
    refused = sum(len(one["refused"]) for one in found)
    lost = sent - refused - len(arrived) + len(posted - arrived)
    doubled = sum(count - 1 for count in (*arrived.values(), *posted.values()))
    rate = f"{sent / seconds:.0f} a second, {AGENTS} processes, {seconds} s"
    yield Row(f"mail, {rate}: median", spans[len(spans) // 2], None, "ms")
    yield Row("  99th of 100", spans[len(spans) * 99 // 100], 20, "ms")
    yield Row("  slowest", spans[-1], None, "ms")
    yield Row(f"  lost of {sent}", lost, 0, "")
    yield Row("  doubled", doubled, 0, "")
    yield Row("  refused", refused, 0, "")
