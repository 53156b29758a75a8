"""Which pages an agent has of its own once it has worked: copied from the fork-server, or new.

By page: `/proc/PID/pagemap` tells which pages nobody else has; what the fork-server has at the same
address was copied when it was first written to. And a thousand agents alive at once.
"""

import os
import struct
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from bench_harness import pss_bytes
from measurements import Row
from process_watch import process_tree, tree_memory
from resting_workers import FREE, resting_workers
from spawn_timeline import kind_of, title_of

_PAGE = os.sysconf("SC_PAGESIZE")
_PRESENT, _EXCLUSIVE = 1 << 63, 1 << 56
_TEAM, _CROWD, _TOOLS = 8, 1_000, 3
_THINKS_MS = 1_000  # as a real model does: meanwhile the fork-server prepares for agents
_LIMIT_S = 900.0
_SETTLE_S = 1.0  # for the requests that follow the last calls


class Mapping(NamedTuple):
    """One line of `/proc/PID/maps`."""

    begin: int
    end: int
    access: str
    name: str

    @property
    def kind(self) -> str:
        if self.name in ("[heap]", "[stack]"):
            return {"[heap]": "malloc's heap", "[stack]": "stacks"}[self.name]
        if self.name.startswith("/"):
            return "files: written data" if "w" in self.access else "files: code and read-only"
        return "anonymous: objects, threads"


def measure(*, quick: bool) -> Iterator[Row]:
    """The pages of one agent and of its launcher; then a crowd."""
    yield from _pages_of_team()
    yield from _crowd(50 if quick else _CROWD)


def _pages_of_team() -> Iterator[Row]:
    with team_at_rest(_TEAM) as pids:
        by_kind: dict[str, list[int]] = {}
        for pid in pids:
            by_kind.setdefault(kind_of(title_of(pid)), []).append(pid)
        (server,) = by_kind["the fork-server"]
        for kind in ("agents", "launchers"):
            pid = by_kind[kind][len(by_kind[kind]) // 2]
            counts, shared = own_pages(pid, server)
            words = f"{shared * _PAGE / 2**20:.1f} MiB shared with others"
            what = f"own memory of one of the {kind} that worked"
            yield Row(what, counts.total() * _PAGE / 2**20, None, "MiB", words)
            for (what, where), pages in counts.most_common():
                yield Row(f"  {what}, {where}", pages * _PAGE / 2**20, None, "MiB")


def _crowd(agents: int) -> Iterator[Row]:
    began = time.monotonic()
    with team_at_rest(agents) as pids:
        took_s = time.monotonic() - began
        pss, _ = tree_memory(pids[0])
        kinds = Counter(kind_of(title_of(pid)) for pid in pids)
        what = f"{agents:,} agents alive that made {_TOOLS} calls each"
        yield Row(f"{what}: memory of all (PSS)", pss / 2**30, 8 * agents / 1_000, "GiB")
        yield Row("  of each, everything counted", pss / 2**20 / agents, 7, "MB")
        yield Row("  the supervisor's", pss_bytes(pids[0]) / 2**20, None, "MB")
        yield Row("  agents' processes", agents - kinds["agents"], 0, "missing")
        yield Row("  until all had made their calls", took_s, None, "s")


@contextmanager
def team_at_rest(agents: int) -> Iterator[list[int]]:
    """The pids of a run whose agents have made their calls and wait for their model."""
    with resting_workers(agents, _TOOLS, FREE, thinks_ms=_THINKS_MS) as team:
        team.wait(_LIMIT_S, quiet=False)
        time.sleep(_SETTLE_S)
        yield process_tree(team.run.pid)


def own_pages(pid: int, origin: int) -> tuple[Counter[tuple[str, str]], int]:
    """Pages of `pid` alone, by what they are and where; and how many it shares with anybody."""
    theirs = {page for one in _mappings(origin) for page, _ in _pages_of(origin, one)}
    own: Counter[tuple[str, str]] = Counter()
    shared = 0
    for mapping in _mappings(pid):
        for page, is_own in _pages_of(pid, mapping):
            if is_own:
                own["copied" if page in theirs else "new", mapping.kind] += 1
            else:
                shared += 1
    return own, shared


def _mappings(pid: int) -> list[Mapping]:
    found = []
    for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
        words = line.split(maxsplit=5)
        begin, _, end = words[0].partition("-")
        name = words[5] if len(words) > 5 else ""
        if name not in ("[vsyscall]", "[vvar]", "[vdso]", "[vvar_vclock]"):
            found.append(Mapping(int(begin, 16), int(end, 16), words[1], name))
    return found


def _pages_of(pid: int, mapping: Mapping) -> Iterator[tuple[int, bool]]:
    """Number of each page that is in memory, and whether no other process has it."""
    first, count = mapping.begin // _PAGE, (mapping.end - mapping.begin) // _PAGE
    with Path(f"/proc/{pid}/pagemap").open("rb", buffering=0) as table:
        table.seek(first * 8)
        data = table.read(count * 8)
    for index, (entry,) in enumerate(struct.iter_unpack("Q", data)):
        if entry & _PRESENT:
            yield first + index, bool(entry & _EXCLUSIVE)
