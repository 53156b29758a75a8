"""`swarm hosts list|probe|doctor`: the machines of `[hosts]` tables on which agents may work."""

import click
import msgspec

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.parts.machines.machine_messages import DrainHost
from swarm.mailbox.protocol.hosts import MachineFound
from swarm.mailbox.protocol.nodes import HostTable

from ....base.number_format import render_bytes
from ....base.version import VERSION
from ....clients.cli.base.control_client import send_request_for_message
from ....clients.cli.base.lazy_commands import ColorCommand
from ....clients.cli.base.machine_probe import find_machines
from ....clients.cli.base.printing import print_columns, print_json
from ....clients.cli.base.run_choice import (
    all_projects_option,
    choose_run_to_change,
    take_run_wanted,
    yes_option,
)
from ....clients.cli.run_setup.click_values import OptionValue
from ....clients.cli.run_setup.run_hosts import find_hosts, read_hosts
from ....clients.cli.run_setup.run_settings import load_config_here
from ...hosts.placement.machine_faults import find_faults

_NONE = "swarm: there is no host; [hosts.NAME] in config.toml makes one (docs/machines.md)"


@click.group("hosts")
def hosts() -> None:
    """List and try other machines on which agents may work.

    \b
    Example:
      swarm hosts probe
    """


@hosts.command("list", cls=ColorCommand)
@click.option("--json", "as_json", is_flag=True, help="One JSON object a host.")
def list_hosts(*, as_json: bool) -> None:
    """The hosts of the configuration; no machine is asked.

    \b
    Example:
      swarm hosts list
    """
    tables = _tables(())
    if as_json:
        for one in tables:
            print_json(msgspec.to_builtins(one))
        return
    rows = [(one.name, one.ray, str(one.slots or "processors"), _pairs(one)) for one in tables]
    print_columns(("HOST", "RAY", "SLOTS", "ONLY"), rows, fits=True)


@hosts.command("probe", cls=ColorCommand)
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a machine.")
def probe(names: tuple[str, ...], *, as_json: bool) -> int:
    """Start a node on each machine, and say what is there: version, sandbox, speed, clock.

    Exit code 1 if a machine, or a host's cluster, cannot be used.

    \b
    Example:
      swarm hosts probe lab
    """
    found: list[MachineFound] = []
    for one in find_machines(_tables(names)):
        found.append(one)
        if as_json:
            print_json(msgspec.to_builtins(one))
    if not as_json:
        head = ("HOST", "MACHINE", "SWARM", "SANDBOX", "CPUS", "MEMORY", "WAY", "SPEED", "CLOCK")
        print_columns(head, [_row(one) for one in found if one.card is not None])
        for one in found:
            if one.problem:
                click.echo(f"{_place(one)}: {one.problem}", err=True)
    return int(any(one.problem for one in found))


@hosts.command("doctor", cls=ColorCommand)
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a machine.")
def doctor(names: tuple[str, ...], *, as_json: bool) -> int:
    """Say what keeps agents from working on each machine, and how to fix it.

    Exit code 1 if something does.

    \b
    Example:
      swarm hosts doctor lab
    """
    is_broken = False
    for one in find_machines(_tables(names)):
        faults = find_faults(one, version=VERSION)
        is_broken = is_broken or any(fault.is_serious for fault in faults)
        if as_json:
            told = [msgspec.to_builtins(fault) for fault in faults]
            print_json({"host": one.host, "machine": _place(one), "faults": told})
            continue
        click.echo(f"{_place(one)}: {'ready' if not faults else ''}".rstrip(": "))
        for fault in faults:
            mark = "cannot work" if fault.is_serious else "note"
            click.echo(f"  {mark}: {fault.what}\n    {fault.fix}")
    return int(is_broken)


@hosts.command("drain", cls=ColorCommand)
@click.argument("words", nargs=-1, metavar="[RUN] MACHINE")
@all_projects_option
@yes_option
def drain(words: tuple[str, ...], **given: OptionValue) -> None:
    """Start no agent on a machine of a live run any more.

    Agents that are there finish; then swarm leaves it. MACHINE is its name in the tree or the end
    of that; a host's name means all its machines. Without RUN: the run of this project.

    \b
    Example:
      swarm hosts drain 4f21c0aa lab/10.0.0.7-3f9a1c
    """
    if not 1 <= len(words) <= 2:
        raise UsageError("say which machine: swarm hosts drain [RUN] MACHINE")
    *run, machine = words
    wanted = take_run_wanted(run[0] if run else None, given)
    here = choose_run_to_change(wanted, f"drain {machine} in")
    click.echo(send_request_for_message(here.folder.name, DrainHost(node=machine)), err=True)


def _tables(names: tuple[str, ...]) -> tuple[HostTable, ...]:
    """Those of these names, or all. Raises UsageError."""
    loaded = load_config_here(lenient=True)
    for problem in loaded.problems:
        click.echo(f"swarm: warning: {problem}", err=True)
    tables = read_hosts(loaded.config.hosts)
    if not tables:
        click.echo(_NONE, err=True)
    return find_hosts(tables, names) if names else tables


def _pairs(table: HostTable) -> str:
    return ", ".join(f"{name}={value}" for name, value in table.labels.items())


def _place(found: MachineFound) -> str:
    where = f"{found.address}-{found.machine}" if found.machine else ""
    return f"{found.host}/{where}" if where else f"hosts.{found.host}"


def _row(found: MachineFound) -> tuple[str, ...]:
    card = found.card
    assert card is not None
    return (
        found.host,
        f"{found.address}-{found.machine}",
        card.version,
        card.sandbox if not card.copies else f"{card.sandbox}, no overlays",
        f"{card.processors:g}",
        render_bytes(card.memory_bytes),
        f"{found.round_trip_ms:.1f} ms",
        f"{render_bytes(int(found.bytes_per_s))}/s",
        f"{round(found.clock_offset_s, 1) + 0.0:+.1f} s",
    )
