"""A home with one server that wants a login, and what was asked of that server."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, NamedTuple

from .forked_programs import Files, ForkedCommand, Setting

HERE = Path(__file__).parent
BROWSER = f"{sys.executable} {HERE.parents[1] / 'scripts' / 'mcp_conformance' / 'follow.py'} %s"
_HUB = b"from swarm.worker.parts.mcp.hub_cli import main; raise SystemExit(main())"


class LoginServer(NamedTuple):
    """The running program and its record."""

    process: ForkedCommand
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
    words = [str(HERE / "oauth_server_program.py"), str(record), *options]
    reader, writer = os.pipe()
    with os.fdopen(reader) as said:
        process = ForkedCommand(words, Files(writer, 2), Setting(os.environ, folder))
        os.close(writer)
        port = int(said.readline())
    return LoginServer(process, record, f"http://127.0.0.1:{port}/mcp")


class HubProgram(NamedTuple):
    """Stands for `subprocess` where a command runs the hub's program: that program, forked."""

    PIPE: int = subprocess.PIPE

    @staticmethod
    def run(
        argv: Sequence[str], *, input: bytes, pass_fds: Sequence[int], **_: Any
    ) -> "subprocess.CompletedProcess[bytes]":
        with ExitStack() as opened:
            program, given, out = (opened.enter_context(NamedTemporaryFile()) for _ in range(3))
            for file, content in ((program, _HUB), (given, input)):
                file.write(content)
                file.seek(0)
            files = Files(out.fileno(), 2, given.fileno(), pass_fds)
            command = ForkedCommand([program.name], files, Setting(os.environ, Path.cwd()))
            code = command.wait_outside_trio(limit_s=60)
            out.seek(0)
            return subprocess.CompletedProcess(argv, code, out.read())
