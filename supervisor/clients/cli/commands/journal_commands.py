"""`swarm show`, `log`, `result`: read a run from its journal, while it is alive or afterwards."""

import csv
import io
import os
import sys
import time
from collections.abc import Iterator

import click
import msgspec

from swarm.mailbox.base.errors import SwarmError, UsageError
from swarm.mailbox.base.ids import ROOT_PATH, short_id
from swarm.mailbox.protocol.records import Record, encode_record

from ....base.part_names import LOG_OPTIONS
from ....base.safe_text import clean_block, clean_line
from ....journal.journal_reader import agent_records, read_records, run_records
from ....journal.replay import RunPast, fold_run
from ....runs.paths import RunPaths
from ....runs.run_metadata import is_run_alive, read_metadata
from ...console.log_lines import LogFilter, log_line, matches_filter
from ...console.terminal import ColorChoice
from ..base.lazy_commands import ColorCommand
from ..base.printing import print_columns, print_json
from ..base.run_choice import RunWanted, all_projects_option, choose_run, split_agent
from ..run_setup.click_values import OptionValue

_FOLLOW_S = 0.3
_CONTEXT_COLUMNS = 80


@click.command("show", cls=ColorCommand)
@click.argument("run", required=False)
@click.argument("agent", required=False)
@click.option("--context", is_flag=True, help="What its newest request was made of, in tokens.")
@click.option("--all", "all_agents", is_flag=True, help="A line for each agent, however many.")
@click.option("--json", "as_json", is_flag=True, help="The tree as one object, or records.")
@all_projects_option
@click.pass_obj
def show(
    color: ColorChoice, /, run: str | None, agent: str | None, *, context: bool, all_agents: bool,
    as_json: bool, all_projects: bool,
) -> None:  # fmt: skip
    """Show what a run's agents came to, or one agent's transcript or context.

    Failed agents come first. Without RUN the newest one of this project. AGENT is a path
    (/root/scout) or its last step; with --context it may be left out: the root.

    \b
    Examples:
      swarm show /root
      swarm show 4f21c0aa scout --context
    """
    run, agent = split_agent(run, agent)
    here = choose_run(RunWanted(run=run, all_projects=all_projects))
    read_metadata(here)
    if context:
        _show_context(here, agent or ROOT_PATH, color, as_json=as_json)
        return
    from ....parts.copies.cut_off_merges import describe_cut_off
    from .watch_command import load_run_view, print_run

    if agent is None:
        for text in describe_cut_off(here):
            click.echo(f"swarm: {clean_line(text)}", err=True)
        if as_json:
            print_json(load_run_view(here))
        else:
            print_run(here, color, all_agents=all_agents)
        return
    path, agent_id = find_agent(here, agent)
    if as_json:
        for record in agent_records(here, agent_id, path):
            click.echo(encode_record(record).decode())
        return
    from ...console.agent_transcript import transcript_lines  # with Rich, which no other command
    from ...console.theme import make_console  # here needs

    console = make_console(sys.stdout, environment=os.environ, color=color)
    for line in transcript_lines(agent_records(here, agent_id, path), path):
        if console.color_system is None:
            sys.stdout.write(f"{line.plain}\n")  # three times as fast, and a transcript is long
        else:
            console.print(line, soft_wrap=True)


def _show_context(here: RunPaths, agent: str, color: ColorChoice, *, as_json: bool) -> None:
    from ...context_report.context_fold import fold_context

    path, agent_id = find_agent(here, agent)
    report = fold_context(agent_records(here, agent_id, path), agent=path)
    if as_json:
        fields = msgspec.structs.asdict(report)
        parts = [msgspec.structs.asdict(part) for part in report.parts]
        sums = {"used_tokens": report.used_tokens, "left_tokens": report.left_tokens}
        print_json({**fields, **sums, "parts": parts})  # defaults too: scripts read them
        return
    from ...console.context_page import context_lines
    from ...console.theme import glyphs_for, make_console

    console = make_console(sys.stdout, environment=os.environ, color=color)
    glyphs = glyphs_for(console.encoding)
    for line in context_lines(report, width=min(console.width, _CONTEXT_COLUMNS), glyphs=glyphs):
        console.print(line, soft_wrap=True)


def find_agent(here: RunPaths, wanted: str) -> tuple[str, str]:
    """(path, agent id) by full path or last component. Raises UsageError that lists the agents."""
    agents = fold_run(run_records(here)).agents
    if wanted in agents:
        return wanted, agents[wanted].spawned.agent_id
    fits = [path for path in agents if path.endswith(f"/{wanted.strip('/')}")]
    if len(fits) == 1:
        return fits[0], agents[fits[0]].spawned.agent_id
    known = ", ".join(sorted(agents)[:8]) or "none"
    raise UsageError(f"no agent {wanted!r} in run {short_id(here.folder.name)}; there are: {known}")


def _part_options(command: OptionValue) -> OptionValue:
    for name, meaning in LOG_OPTIONS.items():
        command = click.option(f"--{name}", "part", flag_value=name, default="", help=meaning)(
            command
        )
    return command


@click.command("log", cls=ColorCommand)
@click.argument("run", required=False)
@click.option("--agent", metavar="PATH", help="Only this agent's.")
@click.option("--mail", is_flag=True, help="Only mail between agents.")
@click.option("--reviews", is_flag=True, help="Only approvals and refusals.")
@_part_options
@click.option("--follow", "-f", is_flag=True, help="Go on while the run is alive.")
@click.option("--json", "as_json", is_flag=True, help="Each record as the journal has it.")
@all_projects_option
def log(
    run: str | None,
    *,
    agent: str | None,
    mail: bool,
    reviews: bool,
    part: str,
    follow: bool,
    as_json: bool,
    all_projects: bool,
) -> None:
    """Print every record of a run in order.

    Without RUN: of the newest one of this project.

    \b
    Example:
      swarm log 4f21c0aa --agent /root --follow
    """
    here = choose_run(RunWanted(run=run, all_projects=all_projects))
    read_metadata(here)
    path = find_agent(here, agent)[0] if agent is not None else None
    wanted = LogFilter(agent=path, mail=mail, reviews=reviews, part=part)
    for record in _following(here) if follow else read_records(here):
        if matches_filter(record, wanted):
            click.echo(log_line(record, as_json=as_json))


def _following(here: RunPaths) -> Iterator[Record]:
    """All records, then new ones until the run is no longer alive."""
    seen = size = 0
    while True:
        alive, before = is_run_alive(here), size
        size = sum(path.stat().st_size for path in here.journal.glob("*.jsonl"))
        for record in read_records(here) if size != before else ():
            if record.seq > seen:
                seen = record.seq
                yield record
        if not alive:
            return
        time.sleep(_FOLLOW_S)


@click.command("result", cls=ColorCommand)
@click.argument("run", required=False)
@click.argument("agent", required=False)
@click.option("--items", is_flag=True, help="One row for each item of the fan-out.")
@click.option("--csv", "as_csv", is_flag=True, help="With --items: as CSV.")
@click.option("--json", "as_json", is_flag=True, help="As JSON; with --items one object a line.")
@all_projects_option
def result(
    run: str | None, agent: str | None, *, items: bool, as_csv: bool, as_json: bool,
    all_projects: bool,
) -> None:  # fmt: skip
    """Print the final answer of a run, an agent or all items.

    Without RUN: of the newest one of this project.

    \b
    Example:
      swarm result 4f21c0aa --items --csv
    """
    run, agent = split_agent(run, agent)
    here = choose_run(RunWanted(run=run, all_projects=all_projects))
    about = read_metadata(here)
    past = fold_run(run_records(here))
    if items:
        _print_items(past, as_csv=as_csv, as_json=as_json)
        return
    status, text, message = about.status, about.result, about.message
    if past.completed is not None:
        status, text, message = past.completed.status, past.completed.result, past.completed.message
    elif not is_run_alive(here):
        status, message = "stopped", "its process ended before the run did"
    if agent is not None:
        path = find_agent(here, agent)[0]
        ended = past.agents[path].ended
        status = ended.state if ended else "running"
        text = ended.message if ended and ended.state in {"completed", "truncated"} else None
        message = ended.message if ended else ""
    if as_json:
        print_json({"run": here.folder.name, "agent": agent or "/root", "status": status,
                    "result": text, "message": message})  # fmt: skip
    elif text is None:
        why = f"{status}, {message}" if message and message != status else status
        raise SwarmError(f"there is no answer: {why}{_how_it_goes_on(here)}")
    else:
        click.echo(clean_block(text) if sys.stdout.isatty() else text)


def _how_it_goes_on(here: RunPaths) -> str:
    short = short_id(here.folder.name)
    if is_run_alive(here):
        return f"; it is not done yet: swarm watch {short}"
    return f"; `swarm resume {short}` goes on with it"


def _print_items(past: RunPast, *, as_csv: bool, as_json: bool) -> None:
    if past.plan is None:
        raise UsageError("this run has no fan-out; leave out --items")
    names = ("index", "item", "state", "agent", "attempts", "result")
    rows: list[tuple[int, str, str, str, int, str]] = []
    for index, item in enumerate(past.plan.items):
        end = past.fan_ended.get(index)
        rows.append(
            (index, item, end.state, end.agent, end.attempt, end.result)
            if end
            else (index, item, "open", "", 0, "")
        )
    if as_json:
        for row in rows:
            print_json(dict(zip(names, row, strict=True)))
    elif as_csv:
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(names)
        writer.writerows(rows)
        click.echo(text.getvalue(), nl=False)
    else:
        cells = [tuple(str(cell) for cell in row) for row in rows]
        print_columns([name.upper() for name in names], cells, right="INDEX ATTEMPTS")
