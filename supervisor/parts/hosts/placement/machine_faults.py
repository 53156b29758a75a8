"""What keeps agents from working on a machine, and how to mend it."""

from swarm.mailbox.base.own_distribution import line_for_extra
from swarm.mailbox.protocol.hosts import MachineFound
from swarm.mailbox.protocol.nodes import NodeCard
from swarm.mailbox.protocol.values.base import Value

_INSTALL_THERE = (
    "install this version of swarm there: a lock of it in hosts.NAME.python_env is installed by "
    "itself, or name a Python that has it in hosts.NAME.python (docs/machines.md)"
)
_MOST_CLOCK_S, _SLOW_MS, _SLOW_BYTES, _LOW_BYTES = 60.0, 200.0, 1 << 20, 1 << 30


class MachineFault(Value):
    """`is_serious`: no agent can work there."""

    what: str
    fix: str
    is_serious: bool = True


def find_faults(found: MachineFound, *, version: str) -> tuple[MachineFault, ...]:
    """All that is wrong with one machine, serious things first."""
    if found.card is None:
        return (MachineFault(what=found.problem, fix=_fix_for(found.problem)),)
    faults = [*_serious_faults(found, found.card, version), *_notes(found, found.card)]
    return tuple(sorted(faults, key=lambda fault: not fault.is_serious))


def _serious_faults(found: MachineFound, card: NodeCard, version: str) -> list[MachineFault]:
    faults: list[MachineFault] = []
    if found.problem:
        fix = "open the TCP ports of that machine to this one; nodes listen on a port of their own"
        faults.append(MachineFault(what=found.problem, fix=fix))
    if card.version != version:
        faults.append(
            MachineFault(
                what=f"it has swarm {card.version}, and this is {version}",
                fix=_INSTALL_THERE,
            )
        )
    if card.copies and card.sandbox == "none":
        faults.append(
            MachineFault(
                what=f"agents cannot work in copies there: {card.copies}",
                fix="run `swarm doctor` on that machine: it says what is missing for a sandbox",
            )
        )
    return faults


def _notes(found: MachineFound, card: NodeCard) -> list[MachineFault]:
    notes: list[tuple[str, str]] = []
    if abs(found.clock_offset_s) > _MOST_CLOCK_S:
        notes.append(
            (
                f"its clock differs by {found.clock_offset_s:+.0f} s",
                "nothing of swarm depends on it, but times of files do: builds may do too much",
            )
        )
    if found.round_trip_ms > _SLOW_MS or 0 < found.bytes_per_s < _SLOW_BYTES:
        notes.append(
            (
                f"the way there is slow: {found.round_trip_ms:.0f} ms, "
                f"{found.bytes_per_s / 1e6:.1f} MB/s",
                "agents there answer later; a project of 500 MB takes as long as that says",
            )
        )
    if card.free_disk_bytes < _LOW_BYTES:
        notes.append(
            (f"only {card.free_disk_bytes >> 20} MiB of disk are left", "free some space there")
        )
    if card.copies and card.sandbox != "none":
        notes.append(
            (
                f"copies are folders of their own there, in another place: {card.copies}",
                "agents start later there; `swarm doctor` on that machine says what is missing",
            )
        )
    if "git" not in card.tools:
        notes.append(("git is not there", "install it, if agents are to use it"))
    return [MachineFault(what=what, fix=fix, is_serious=False) for what, fix in notes]


def _fix_for(problem: str) -> str:
    if "no Ray here" in problem:
        return f"on this machine: {line_for_extra('ray')}"
    if "No module named 'swarm" in problem:
        return _INSTALL_THERE
    if "no Ray cluster" in problem:
        return "start it (`ray start --head`), or write its address into hosts.NAME.ray"
    return "look at the logs of Ray on that machine"
