"""Runs the probe of other machines in a process of its own, since it imports Ray."""

import subprocess
import sys
from collections.abc import Iterator, Sequence
from tempfile import TemporaryFile

import msgspec

from swarm.mailbox.base.errors import SwarmError
from swarm.mailbox.protocol.hosts import MachineFound
from swarm.mailbox.protocol.nodes import HostTable

_PROGRAM = ("-P", "-m", "swarm.worker.parts.hosts.hosts_probe")
_MOST_STDERR_BYTES = 2_000
_decode = msgspec.json.Decoder(MachineFound).decode


def find_machines(tables: Sequence[HostTable]) -> Iterator[MachineFound]:
    """Each machine of these tables as soon as it is known. Raises SwarmError if the probe fails."""
    with (
        TemporaryFile() as said,
        subprocess.Popen(
            [sys.executable, *_PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said
        ) as probe,
    ):
        assert probe.stdin is not None
        assert probe.stdout is not None
        probe.stdin.write(msgspec.msgpack.encode(list(tables)))
        probe.stdin.close()
        for line in probe.stdout:
            yield _decode(line)
        if code := probe.wait():
            said.seek(max(0, said.tell() - _MOST_STDERR_BYTES))
            tail = said.read().decode(errors="replace").strip().splitlines()[-1:]
            raise SwarmError(f"the probe failed with exit code {code}: {' '.join(tail)}")
