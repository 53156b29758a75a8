"""How much of what is sent could be read from a prompt cache: over 200 requests of one turn, and
by siblings of a fan-out.

The server compares the raw bytes of each request's input with those of the one before it, as a
provider's prefix cache does; tools and instructions must be the same bytes throughout. Of siblings
it compares the whole first requests.
"""

import tempfile
from collections.abc import Iterator
from pathlib import Path

from bench_harness import journal_of, model_server, run_swarm, swarm_home
from measurements import Row

REQUESTS = 200
COMMAND = "seq 1"  # to 400 and more: 1.5 KB of output a call, each another one
LIMIT_TOKENS = 60_000  # of the second run: several compactions
SIBLINGS = 8
MOST_OWN = 5.0  # percent of a sibling's first request


def measure(*, quick: bool) -> Iterator[Row]:
    """A run that only grows, and one that is compacted on its way."""
    requests = 50 if quick else REQUESTS
    yield from _one_run(requests, "", most_again=2 * 200 / requests)
    limit = LIMIT_TOKENS // 3 if quick else LIMIT_TOKENS
    yield from _one_run(requests, f"model_auto_compact_token_limit={limit}", most_again=None)
    yield from _siblings()


def _one_run(requests: int, setting: str, *, most_again: float | None) -> Iterator[Row]:
    with (
        model_server("prefix", requests - 1, COMMAND) as server,
        swarm_home(server.url) as environment,
        tempfile.TemporaryDirectory() as cwd,
    ):
        (Path(cwd) / "AGENTS.md").write_text("Use tabs.\n")
        options = ("-c", setting) if setting else ()
        done = run_swarm(
            environment, "run", "-p", "count", "-s", "danger-full-access", "--plain", *options,
            cwd=cwd,
        )  # fmt: skip
        if done.returncode:
            raise RuntimeError(done.stderr[-2000:])
        seen = server.seen()["prefix"]
        compactions = sum(
            record["body"].get("shortened") is not None for record in journal_of(environment)
        )
    name = f"{seen['requests']} requests" + (f", {compactions} compactions" if setting else "")
    again = seen["input_bytes"] - seen["reusable_bytes"]
    yield Row(f"input bytes a prefix cache could reuse, {name}",
              100 * seen["reusable_bytes"] / seen["input_bytes"], None, "%")  # fmt: skip
    yield Row(f"  not reusable of {seen['input_bytes'] / 1e6:.1f} MB",
              100 * again / seen["input_bytes"], most_again, "%")  # fmt: skip
    yield Row("  requests whose beginning was another one", seen["breaks"], compactions, "")
    yield Row("  different heads (instructions, tools)", seen["heads"], 1, "")


def _siblings() -> Iterator[Row]:
    with (
        model_server("siblings") as server,
        swarm_home(server.url) as environment,
        tempfile.TemporaryDirectory() as cwd,
    ):
        folder = Path(cwd)
        for number in range(SIBLINGS):
            (folder / f"part{number}").mkdir()
        (folder / "AGENTS.md").write_text("Use tabs.\n")
        (folder / "task.md").write_text(
            "---\nfan_out:\n  each: {dirs: 'part*'}\n  prompt: 'What is {item} for?'\n---\nJoin.\n"
        )
        words = ("run", "task.md", "-s", "danger-full-access", "--plain")
        done = run_swarm(environment, *words, cwd=cwd)
        if done.returncode:
            raise RuntimeError(done.stderr[-2000:])
        seen = server.seen()["siblings"]
    if seen["requests"] != SIBLINGS:
        raise RuntimeError(f"{seen['requests']} first requests of {SIBLINGS} siblings")
    own = 100 * (1 - seen["least_share"])
    yield Row(f"first requests of {SIBLINGS} siblings: shared with the one before",
              100 - own, None, "%")  # fmt: skip
    yield Row(f"  not shared of {seen['bytes'] / 1e3:.1f} KB", own, MOST_OWN, "%")
