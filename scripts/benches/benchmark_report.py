"""From what `--json` wrote: docs/benchmarks.md, with a table a bench and a plot a question."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from machine_info import describe_speed

DOCS = Path(__file__).parents[2] / "docs"
PAGE, PLOTS_FOLDER = DOCS / "benchmarks.md", DOCS / "benchmarks"


class Plot(NamedTuple):
    """What one picture asks, and the names of its axes."""

    question: str
    x: str
    y: str
    limit: float | None = None
    is_logarithmic: bool = False


PLOTS = {
    "overhead": Plot(
        "Does a turn cost more the longer the conversation is?",
        "number of the turn", "ms from one response to the next request",
    ),
    "memory": Plot(
        "What does one more idle agent weigh?", "agents alive at once", "MB (PSS) of one",
        limit=6, is_logarithmic=True,
    ),
    "births": Plot(
        "How long until so many agents have asked their model for the first time?",
        "agents started in one go", "ms", is_logarithmic=True,
    ),
    "soak_memory": Plot(
        "Does a long run grow?", "turns so far", "MB of own pages",
    ),
    "soak_latency": Plot(
        "Does a long run get slower?", "turns so far", "ms (median of twenty)",
    ),
}  # fmt: skip
TIMELINES = {
    "spawn_1": "Which process runs when during one spawn?",
    "spawn_32": "Which process runs when during 32 spawns in one go?",
}
_LANE_COLOURS = {
    "the supervisor": "tab:blue", "the root": "tab:cyan", "the root's launcher": "tab:cyan",
    "the fork-server": "tab:red", "the spare": "tab:pink", "the gateway": "tab:green",
    "agents": "tab:orange", "launchers": "tab:brown", "the model server": "tab:grey",
}  # fmt: skip
_LANE_STEPS = 600  # that a picture's width can show
_HEAD = """# Benchmarks

Measured by `scripts/bench`, written by `scripts/bench report`. To repeat them on a quiet machine:

```console
$ scripts/bench all --json > figures.json             # some 25 minutes; --quick takes 5
$ scripts/bench all --peer codex --peer claude --json > figures.json  # beside installed peers
$ scripts/bench report figures.json                   # this page and its pictures
```

The model server answers without delay, so all that is left is what swarm itself costs. *Limit* is
what we promise; **bold** is a figure over it. *Floor* is what the machine asks for the same without
swarm: a bare fork with Trio and a ZeroMQ socket, a plain subprocess, an interpreter's imports, the
bytes of the texts; of the soak it is the first quarter. A figure is a median; beside it stand the
least and the greatest of its runs. A peer's figure with a ratio was measured in the same hour on
the same machine; one without, on the machine for which the limits were set.

The interpreter counts: with one built without optimization every figure of time is some 20 %
greater (`scripts/pick-python` looks for a better one).

## Limits that are not met, and what it would take
Every agent is a process of its own: it can be killed, limited, confined, restarted and merged
alone, and what it holds is gone with it. That costs what the tables show, and no table hides it.

- *32 spawns in one go.* The last of Claude Code's 32, tasks in its one process, asks its model 184
  ms after it was wanted. swarm spends 17 ms of a processor on each: 10 in the agent, 3.5 in the
  supervisor, 1.7 in the gateway, 1.4 in the fork-server (rows "processor time of", pictures below).
  Of the agent's ten, four to five are the copies of 1,800 pages (7 MiB; 2.3 µs each on this
  machine, also when the kernel is asked for all of them at once): CPython counts references within
  its objects, so whoever uses an object writes to its page. The rest is some 5,700 calls of Python:
  Trio, two sockets, the first request.
- *Memory of agents that work.* One has 9 to 10 MiB of its own, its launcher 3; almost all of it was
  copied from the fork-server, nearly half of these pages with the same contents as before. Of the
  first writes to them a fifth are to code, an eighth to names, a tenth to functions, a tenth to
  types. Placing the code that runs side by side was tried again: 5 % less. What would help is an
  interpreter that does not count references to what never goes (free-threaded CPython defers them),
  a kernel that merges equal pages (KSM, which an administrator switches on), or several agents that
  only read in one process, which would share each other's end.
- *16 sandboxed calls of one response* are 16 sandboxes of 6 ms of a processor each; on two
  processors that is 50 ms at least, beside 10 ms for a single one that was prepared ahead.
- *The first start after an installation that compiled nothing* (pip compiles, uv does with
  `--compile-bytecode`) compiles all modules that it loads: 640 ms instead of 200.
- *`swarm show` of a transcript* writes all outputs of its commands, here 300 MB.
- *A fan-out of 10,000* takes 12.5 to 13.2 ms an item where 12 were wanted: an item costs 25 ms of
  processors, and two are busy with it all the time. 17 of these are the agent's and its launcher's
  (half of it the kernel's: fork, copies of pages, giving them back), 4 the supervisor's, 1.9 the
  gateway's, 1.6 the fork-server's.
- *The supervisor's memory* grows by 1.05 to 1.2 MB in its first 10,000 agents and by 0.4 to 0.7 for
  every 10,000 more, that is 40 to 70 bytes for each agent that ended.
- *`swarm ps` with 1,000 runs* was 187 ms in the table and is 133 since: it loads nothing of what
  requests are made of.

## Tricks below the language
A trick stays only while a figure that a user can feel pays for it.

- *Starting bubblewrap ahead of the next command* stays: rows "with" and "without
  prewarmed_sandbox" below. `features.prewarmed_sandbox = false` switches it off.
- *Returning freed heap pages* (`trim_heap`) stays, one call: for 10,000 finished agents the
  supervisor keeps 0.8 to 1.2 MB with it and 1.9 to 2.6 without.
- *Copying the code that runs, and filling the gaps of the heap, before a fork* was deleted, and
  tried again with today's agents: 494 MiB for a team of 32 with both, 497 without.
"""


def write_report(files: list[Path]) -> int:
    """Write the page and the plots. Later files add to the earlier ones. Returns the exit code."""
    results = [json.loads(path.read_text()) for path in files]
    if not results:
        print("scripts/bench report: name a file that `scripts/bench … --json` wrote")
        return 2
    parts = [_HEAD]
    for result in results:
        parts.append(machine_words(result))
        if result["rows"]:
            parts.append(table(result["rows"]))
    PLOTS_FOLDER.mkdir(exist_ok=True)
    curves = [curve for result in results for curve in result["curves"]]
    for name, plot in PLOTS.items():
        lines = [curve for curve in curves if curve["plot"] == name]
        if lines:
            draw(plot, lines, PLOTS_FOLDER / f"{name}.svg")
            parts.append(f"## {plot.question}\n![{plot.question}](benchmarks/{name}.svg)\n")
    for line in (one for result in results for one in result.get("timelines", ())):
        question = TIMELINES[line["plot"]]
        draw_timeline(line, PLOTS_FOLDER / f"{line['plot']}.svg")
        parts.append(f"## {question}\n![{question}](benchmarks/{line['plot']}.svg)\n")
    PAGE.write_text("\n".join(parts))
    print(f"wrote {PAGE.relative_to(DOCS.parent)}")
    return 0


def machine_words(result: dict[str, Any]) -> str:
    """One paragraph: where and how these were measured."""
    one = result["machine"]
    how = "with few rounds (`--quick`)" if result["quick"] else "with all rounds"
    peer = f", beside {result['peer']}" if result["peer"] else ""
    return (
        f"## {one['date']}\n{one['cores']} cores of {one['processor']}, {one['memory_gib']} GiB, "
        f"{one['system']}, Python {one['python']}; commit `{one['version']}`, {how}{peer}; load "
        f"before it {one['load_before']}. {describe_speed(one)}\n"
    )


def table(rows: list[dict[str, Any]]) -> str:
    """A Markdown table of rows."""
    lines = ["| measured | median | limit | floor | min-max | peer |", "|--|--:|--:|--:|--|--|"]
    for row in rows:
        value, unit = f"{row['value']:.4g}", row["unit"]
        missed = row["limit"] is not None and row["value"] > row["limit"]
        figure = f"**{value} {unit}**" if missed else f"{value} {unit}"
        limit = "" if row["limit"] is None else f"{row['limit']:.4g}"
        floor = "" if row["floor"] is None else f"{row['floor']:.3g}"
        spread = "" if row["least"] is None else f"{row['least']:.4g}-{row['most']:.4g}"
        what = row["what"].replace("|", "\\|")
        what = f"… {what.strip()}" if what.startswith(" ") else what
        lines.append(f"| {what} | {figure} | {limit} | {floor} | {spread} | {row['peer']} |")
    return "\n".join(lines) + "\n"


@contextmanager
def picture(to: Path, height: float) -> Iterator[tuple[Any, Any]]:
    """A figure and its axes, written as SVG at the end. Needs matplotlib, of the dev group."""
    import matplotlib as mpl

    mpl.use("svg")
    import matplotlib.pyplot as plt

    plt.rcParams["svg.hashsalt"] = "swarm"  # the same figures make the same file
    figure, axes = plt.subplots(figsize=(7.5, height), layout="constrained")
    yield figure, axes
    figure.savefig(to, metadata={"Date": None})
    plt.close(figure)


def draw(plot: Plot, lines: list[dict[str, Any]], to: Path) -> None:
    """One line each."""
    with picture(to, 3.6) as (_, axes):
        for line in lines:
            across, up = zip(*line["points"], strict=True)
            axes.plot(across, up, marker="." if len(across) < 12 else None, label=line["line"])
        if plot.limit is not None:
            axes.axhline(plot.limit, color="grey", linestyle="--", label="limit")
        if plot.is_logarithmic:
            axes.set_xscale("log", base=2)
            axes.xaxis.set_major_formatter("{x:.0f}")
        axes.set_ylim(bottom=0)
        axes.set_xlabel(plot.x)
        axes.set_ylabel(plot.y)
        axes.grid(alpha=0.3)
        axes.legend()


def draw_timeline(line: dict[str, Any], to: Path) -> None:
    """One lane a process, in the order in which they first ran; first requests are lines."""
    lanes, requests = line["lanes"], line["first_requests"]
    with picture(to, 1.2 + 0.14 * len(lanes)) as (figure, axes):
        named: set[str] = set()
        for row, (name, spans) in enumerate(lanes):
            label = None if name in named else name
            named.add(name)
            bars = [(a, b - a) for a, b in joined(spans, max(requests) / _LANE_STEPS)]
            axes.broken_barh(bars, (row - 0.4, 0.8), facecolors=_LANE_COLOURS[name], label=label)
        for at in requests:
            axes.axvline(at, color="black", linewidth=0.4, alpha=0.5)
        axes.invert_yaxis()
        axes.set_yticks([])
        axes.set_xlim(left=0)
        axes.set_xlabel("ms since the response that asked for them; lines are first requests")
        figure.legend(fontsize="x-small", loc="outside right upper")


def joined(spans: list[list[float]], gap: float) -> list[list[float]]:
    """The spans without gaps that a picture cannot show."""
    found: list[list[float]] = []
    for begin, end in spans:
        if found and begin - found[-1][1] < gap:
            found[-1] = [found[-1][0], end]
        else:
            found.append([begin, end])
    return found
