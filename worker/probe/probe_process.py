"""The process of `swarm models probe`: `python -P -m swarm.worker.probe.probe_process`.

The order, which holds keys, comes through stdin; one JSON object a line goes to stdout.
"""

import json
import sys

import msgspec

from swarm.mailbox.base.errors import SwarmError
from swarm.mailbox.protocol.spec import ProbeOrder

from ..gateway.model_probe import probe_lines
from .probe_tasks import probe_tasks


def _print_json(**fields: object) -> None:
    sys.stdout.write(json.dumps(fields) + "\n")
    sys.stdout.flush()


def main() -> int:
    """Exit codes: 0 done, 2 bad usage, 5 no answer; an `error` line holds the reason."""
    try:
        order = msgspec.json.decode(sys.stdin.buffer.read(), type=ProbeOrder)
        return probe_lines(order, probe_tasks(), _print_json)
    except SwarmError as error:
        _print_json(type="error", message=str(error))
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main())
