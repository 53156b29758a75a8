"""What a run knows of the heavy commands of earlier runs, and of its own."""

from pathlib import Path

import trio

from swarm.mailbox.parts.leases.lease_messages import (
    HeavyCommandEnded,
    LeaseRules,
    LeaseSettings,
)

from ...processes.machine_state import memory_bytes
from .command_costs import CommandCosts, add_cost, learned_heads, read_costs


class LeaseLedger:
    """One per run."""

    def __init__(self, folder: Path, settings: LeaseSettings, *, cwd: str) -> None:
        """`folder`: that of all runs; `cwd`: the folder in which this run works."""
        self._folder, self._settings, self._cwd = folder, settings, cwd
        self.costs = read_costs(folder) if settings.enabled else CommandCosts()
        # The machine is looked at once, and only where somebody bounds these commands.
        ram_bytes = memory_bytes() if settings.command_memory else 0
        self._command_bytes = settings.command_bytes(ram_bytes)

    def rules_for_agents(self) -> LeaseRules:
        """What a new agent process is told."""
        return LeaseRules(
            enabled=self._settings.enabled,
            commands=self._settings.commands,
            learned=learned_heads(self.costs, folder=self._cwd),
            command_memory_bytes=self._command_bytes,
        )

    async def add(self, ended: HeavyCommandEnded) -> None:
        """Remember what a command used. Raises OSError: this run alone knows it."""
        self.costs = await trio.to_thread.run_sync(add_cost, self._folder, ended)
