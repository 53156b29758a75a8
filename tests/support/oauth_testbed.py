"""A home with one server that wants a login, and what was asked of that server."""

import json
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
BROWSER = f"{sys.executable} {HERE.parents[1] / 'scripts' / 'mcp_conformance' / 'follow.py'} %s"


class LoginServer(NamedTuple):
    """The running program and its record."""

    process: subprocess.Popen[str]
    record: Path
    url: str

    def seen(self, what: str) -> list[dict[str, object]]:
        """The requests of this kind, oldest first."""
        lines = self.record.read_text().splitlines() if self.record.exists() else []
        return [one for one in map(json.loads, lines) if one["what"] == what]

    def tokens(self) -> set[str]:
        """Every token that was given."""
        return {str(one[kind]) for one in self.seen("token") for kind in ("access", "refresh")}


def start_login_server(folder: Path, *options: str) -> LoginServer:
    """Start the program; whoever starts it ends it."""
    record = folder / "record.jsonl"
    process = subprocess.Popen(
        [sys.executable, str(HERE / "oauth_server_program.py"), str(record), *options],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    port = int(process.stdout.readline())
    return LoginServer(process, record, f"http://127.0.0.1:{port}/mcp")
