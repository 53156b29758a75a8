"""`swarm leases [--json] [--learned]`: heavy commands of all runs that run or wait."""

import os
import time
from pathlib import Path

import click
import msgspec

from swarm.mailbox.base.ids import short_id
from swarm.roles.parts.leases.lease_settings import check_lease_settings

from ....base.number_format import render_span
from ....clients.cli.base.lazy_commands import ColorCommand
from ....clients.cli.base.printing import print_columns, print_json
from ....clients.cli.run_setup.run_settings import load_config_here
from ....processes.machine_facts import MachineState
from ....processes.machine_state import memory_bytes, read_machine_state
from ....runs.paths import find_user_paths
from ..command_costs import CommandPast, read_costs
from ..holder_usage import holder_pids, read_trees, with_usage
from ..lease_folder import LeaseFolderBusy, counted_tickets, look
from ..lease_scheduler import (
    Decision,
    LeaseLimits,
    Ticket,
    decide_leases,
)
from ..service.lease_service import LEASES_FOLDER

_LOOKS, _PAUSE_S = 100, 0.01


@click.command("leases", cls=ColorCommand)
@click.option("--json", "as_json", is_flag=True, help="One JSON object: machine, leases, learned.")
@click.option("--learned", is_flag=True, help="What earlier heavy commands used, instead.")
def leases(*, as_json: bool, learned: bool) -> None:
    """Show the heavy commands of all runs: which run, which wait for their turn, and why.

    \b
    Example:
      swarm leases
    """
    places = find_user_paths(dict(os.environ))
    if learned and not as_json:
        _print_learned(read_costs(places.runs).commands)
        return
    now, machine = time.monotonic(), read_machine_state()
    tickets = _read_tickets(places.runtime / LEASES_FOLDER, now)
    tickets = with_usage(tickets, read_trees(holder_pids(tickets)))
    loaded = load_config_here(lenient=True)
    for problem in loaded.problems:
        click.echo(f"swarm: warning: {problem}", err=True)
    ram_bytes = memory_bytes()
    settings = check_lease_settings(loaded.config.leases, ram_bytes=ram_bytes)
    limits = LeaseLimits(most=settings.most, reserve_bytes=settings.reserve_bytes(ram_bytes))
    decision = decide_leases(tickets, machine, limits, now=now)
    held = sorted((one for one in tickets if one.holds_lease), key=lambda one: one.given_s or 0.0)
    rows = [*held, *decision.given, *decision.queue]
    if as_json:
        print_json(
            {
                "enabled": settings.enabled,
                "machine": msgspec.to_builtins(machine),
                "leases": [_as_json(one, now) for one in rows],
                "waits_for": decision.why,
                "learned": msgspec.to_builtins(read_costs(places.runs).commands),
            }
        )
        return
    cells = [_row(one, now) for one in rows]
    print_columns(("STATE", "RUN", "AGENT", "KIND", "FOR", "MEMORY", "COMMAND"), cells)
    for line in _summary(machine, rows, decision, enabled=settings.enabled):
        click.echo(line, err=True)


def _read_tickets(folder: Path, now: float) -> list[Ticket]:
    for _ in range(_LOOKS):
        try:
            return [one for run in look(folder) for one in counted_tickets(run, now)]
        except LeaseFolderBusy:
            time.sleep(_PAUSE_S)  # others hold it for a moment
    raise LeaseFolderBusy(
        f"{folder} stays locked; `swarm ps` lists runs, one of them may be stopped"
    )


def _row(one: Ticket, now: float) -> tuple[str, ...]:
    since = one.asked_s if one.given_s is None else one.given_s
    return (
        "runs" if one.holds_lease else "waits",
        short_id(one.run),
        one.agent,
        one.kind,
        render_span(now - since),
        _mebibytes(one.used_bytes or one.memory_bytes),
        one.command,
    )


def _as_json(one: Ticket, now: float) -> dict[str, object]:
    since = one.asked_s if one.given_s is None else one.given_s
    return {
        "state": "running" if one.holds_lease else "waiting",
        "run": one.run,
        "agent": one.agent,
        "kind": one.kind,
        "command": one.command,
        "for_s": round(now - since, 1),
        "interactive": one.interactive,
        "expected_memory_bytes": one.memory_bytes,
        "expected_processors": one.cpus,
        "expected_s": one.expected_s,
        "used_bytes": one.used_bytes,
    }


def _summary(
    machine: MachineState, rows: list[Ticket], decision: Decision, *, enabled: bool
) -> list[str]:
    lines: list[str] = []
    if not rows:
        lines.append("no heavy command runs or waits")
    if decision.why:
        lines.append(f"the first one waits: {decision.why}")
    pressures = (
        ("processors", machine.cpu_pressure),
        ("memory", machine.memory_pressure),
        ("disks", machine.io_pressure),
    )
    shown = ", ".join(f"{name} {share:.0f} %" for name, share in pressures if share is not None)
    free = (
        "" if machine.available_bytes is None else f", {_mebibytes(machine.available_bytes)} free"
    )
    lines.append(
        f"this machine: {machine.processors} processors{free}, "
        f"{f'pressure: {shown}' if shown else f'load {machine.load}'}"
    )
    if not enabled:
        lines.append("runs of this folder take no turns: leases.enabled is false")
    return lines


def _print_learned(commands: tuple[CommandPast, ...]) -> None:
    rows = [
        (
            one.kind,
            str(len(one.samples)),
            render_span(max(sample.seconds for sample in one.samples)),
            _mebibytes(max(sample.peak_bytes for sample in one.samples)),
            one.cwd,
            one.command,
        )
        for one in reversed(commands)
        if one.samples
    ]
    print_columns(("KIND", "RUNS", "LONGEST", "MEMORY", "FOLDER", "COMMAND"), rows)


def _mebibytes(size: int) -> str:
    return f"{size / 2**20:,.0f} MiB"
