"""What heavy commands used before, and what the next one like it is expected to use.

Only `read_costs` and `add_cost` touch the file, a bounded extract of what the journals hold
(`HeavyCommandEnded`). It lies in the folder of runs, which no sandboxed command sees.
"""

import statistics
from pathlib import Path, PurePath

import msgspec

from swarm.mailbox.base.safe_open import read_user_file
from swarm.mailbox.parts.leases.lease_messages import MAX_LEASE_TEXT, HeavyCommandEnded, HeavyKind
from swarm.mailbox.protocol.values.base import Value
from swarm.roles.config.atomic_replace import locked_folder, replace_file

COSTS_FILE = ".command-costs.json"  # in the folder of runs
_MOST_COMMANDS, _MOST_SAMPLES = 400, 5
_MOST_BYTES = 1 << 20
_MARGIN = 1.2  # memory beyond the most that was seen
_LIGHT_S, _LIGHT_BYTES, _LIGHT_RUNS = 3.0, 256 << 20, 2
_MIB = 1 << 20
_MOST_PROCESSORS = 4096
_MOST_EXPECTED_BYTES = 1 << 49  # what other runs accept in a ticket
# Of a command whose past is unknown: memory, and processors (None: all).
_DEFAULTS: dict[HeavyKind, tuple[int, float | None]] = {
    "build": (1024 * _MIB, None),
    "test": (512 * _MIB, 1.0),
    "install": (384 * _MIB, 0.5),
    "learned": (1024 * _MIB, 1.0),
}


class CostSample(Value):
    """One run of a command to its end."""

    seconds: float
    cpu_s: float
    peak_bytes: int
    succeeded: bool = True


class CommandPast(Value):
    """The last runs of one command in one folder, the newest last."""

    head: str
    cwd: str
    command: str
    kind: HeavyKind
    samples: tuple[CostSample, ...] = ()


class CommandCosts(Value):
    """The past of all commands, the latest used last."""

    commands: tuple[CommandPast, ...] = ()


class Estimate(Value):
    """What a command is expected to use."""

    memory_bytes: int
    cpus: float
    seconds: float | None = None
    is_light: bool = False  # it was so short and small each time that it need not wait


_decode = msgspec.json.Decoder(CommandCosts).decode


def estimate_cost(
    costs: CommandCosts, *, kind: HeavyKind, command: str, head: str, cwd: str, processors: int
) -> Estimate:
    """The same command in the same folder counts most, then its like there, then a default.

    Of the same command the largest memory of its last runs counts, of its like the median.
    """
    alike = [one for one in costs.commands if one.cwd == cwd and one.head == head]
    same = next((one for one in alike if one.command == command), None)
    if same is not None and same.samples:
        peak = max(one.peak_bytes for one in same.samples)
        succeeded = sum(one.succeeded for one in same.samples)  # a failure may end too early
        is_light = succeeded >= _LIGHT_RUNS and all(map(_is_light, same.samples))
        return Estimate(
            memory_bytes=_with_margin(peak),
            cpus=max(map(_cpus, same.samples)),
            seconds=statistics.median(one.seconds for one in same.samples),
            is_light=is_light,
        )
    samples = [sample for one in alike for sample in one.samples]
    if samples:
        return Estimate(
            memory_bytes=_with_margin(statistics.median(one.peak_bytes for one in samples)),
            cpus=statistics.median(map(_cpus, samples)),
            seconds=statistics.median(one.seconds for one in samples),
        )
    memory_bytes, cpus = _DEFAULTS[kind]
    return Estimate(memory_bytes=memory_bytes, cpus=float(processors) if cpus is None else cpus)


def _with_margin(peak_bytes: float) -> int:
    return min(int(_MARGIN * peak_bytes), _MOST_EXPECTED_BYTES)


def _is_light(sample: CostSample) -> bool:
    return sample.seconds <= _LIGHT_S and sample.peak_bytes <= _LIGHT_BYTES


def _cpus(sample: CostSample) -> float:
    """Processors that it kept busy; a quarter at least, for it also waits."""
    return min(max(0.25, sample.cpu_s / max(sample.seconds, 0.001)), float(_MOST_PROCESSORS))


def with_cost(costs: CommandCosts, ended: HeavyCommandEnded) -> CommandCosts:
    """The past with one more run. One that was killed or never ran tells nothing.

    An agent may say anything: what is out of bounds tells nothing either.
    """
    if not ended.ran or ended.exit_code is None or ended.exit_code >= _KILLED_CODES:
        return costs
    if not _is_plausible(ended):
        return costs
    past = next((one for one in costs.commands if _is_of(one, ended)), None)
    sample = CostSample(
        seconds=ended.seconds,
        cpu_s=ended.cpu_s,
        peak_bytes=ended.peak_bytes,
        succeeded=ended.exit_code == 0,
    )
    samples = (*(past.samples if past is not None else ()), sample)[-_MOST_SAMPLES:]
    renewed = CommandPast(
        head=ended.head, cwd=ended.cwd, command=ended.command, kind=ended.kind, samples=samples
    )
    others = tuple(one for one in costs.commands if not _is_of(one, ended))
    return CommandCosts(commands=(*others, renewed)[-_MOST_COMMANDS:])


_KILLED_CODES = 128  # and above: ended by a signal
_MOST_S, _MOST_PEAK_BYTES, _MOST_PATH = 366 * 86_400.0, 1 << 50, 4096


def _is_plausible(ended: HeavyCommandEnded) -> bool:
    return (
        0 < len(ended.head) <= MAX_LEASE_TEXT
        and len(ended.command) <= MAX_LEASE_TEXT
        and len(ended.cwd) <= _MOST_PATH
        and 0 <= ended.seconds <= _MOST_S  # also refuses NaN
        and 0 <= ended.cpu_s <= _MOST_S * _MOST_PROCESSORS
        and 0 <= ended.peak_bytes <= _MOST_PEAK_BYTES
    )


def _is_of(past: CommandPast, ended: HeavyCommandEnded) -> bool:
    return (past.cwd, past.head, past.command) == (ended.cwd, ended.head, ended.command)


def learned_heads(costs: CommandCosts, *, folder: str, most: int = 100) -> tuple[str, ...]:
    """First words of commands that no table names and that were heavy, the latest used first.

    Only of those that ran in the folder or below it: elsewhere the same words may be another
    program.
    """
    learned = (one for one in reversed(costs.commands) if one.kind == "learned")
    found = (one.head for one in learned if PurePath(one.cwd).is_relative_to(folder))
    return tuple(dict.fromkeys(found))[:most]


def read_costs(folder: Path) -> CommandCosts:
    """What is known; nothing if the file is missing, too large, or unreadable."""
    try:
        return _decode(read_user_file(folder / COSTS_FILE, most_bytes=_MOST_BYTES))
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return CommandCosts()


def add_cost(folder: Path, ended: HeavyCommandEnded) -> CommandCosts:
    """Add one run to the file; returns all that is known. Blocks. Raises OSError."""
    with locked_folder(folder):
        before = read_costs(folder)
        after = with_cost(before, ended)
        if after != before:
            replace_file(folder / COSTS_FILE, msgspec.json.encode(after))
    return after
