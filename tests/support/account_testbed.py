"""An issuer that runs, what was asked of it, and a home whose configuration names it."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from support.forked_programs import forked_python
from support.oauth_testbed import BROWSER
from swarm.roles.parts.accounts.stored_account import AccountStore, StoredAccount

HERE = Path(__file__).parent
SWARM = str(Path(sys.executable).with_name("swarm"))
MODEL = ("-m", "gpt-5.5")


class RunningIssuer(NamedTuple):
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

    def change(self, **options: str) -> None:
        """From now on these options alone hold."""
        file = self.record.with_suffix(".new")
        file.write_text(json.dumps(options))
        file.replace(self.record.with_suffix(".options"))

    def table(self, **more: object) -> str:
        """`[login.there]` for it, as TOML."""
        keys = {"provider": "openai", "issuer": self.url, "client_id": "client-1"} | more
        keys |= {"base_url": f"{self.url}/v1"} if "base_url" not in more else {}
        lines = [f"{key} = {json.dumps(value)}" for key, value in keys.items()]
        return "\n".join(["[login.there]", *lines, ""])


@contextmanager
def running_issuer(folder: Path, *options: str) -> Iterator[RunningIssuer]:
    """The program within the block."""
    record = folder / "issuer.jsonl"
    with subprocess.Popen(
        [forked_python(), str(HERE / "issuer_program.py"), str(record), *options],
        stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        try:
            assert process.stdout is not None
            port = int(process.stdout.readline())
            yield RunningIssuer(process, record, f"http://127.0.0.1:{port}")
        finally:
            process.kill()


class Home:
    """A person's home, where `swarm` is typed."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.work = folder / "home", folder / "work"
        for one in (self.folder, self.work):
            one.mkdir(exist_ok=True)
        self.environment = {
            "PATH": "/usr/bin:/bin", "HOME": str(self.folder), "SWARM_HOME": str(self.folder),
            "SHELL": "/bin/sh", "XDG_RUNTIME_DIR": str(folder), "BROWSER": BROWSER,
        }  # fmt: skip

    def configure(self, *tables: str) -> None:
        (self.folder / "config.toml").write_text("\n".join(tables))

    def start(self, *words: str, **environment: str) -> "subprocess.Popen[str]":
        """Start a command; whoever starts it waits for it."""
        return subprocess.Popen(
            [forked_python(), SWARM, *words],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True, cwd=self.work, env=self.environment | environment,
        )  # fmt: skip

    def type(self, *words: str, stdin: str = "", **environment: str) -> tuple[int, str, str]:
        """Exit code, stdout and stderr of one command."""
        with self.start(*words, **environment) as process:
            out, err = process.communicate(stdin, timeout=60)
            return process.returncode, out, err

    @property
    def accounts(self) -> Path:
        return self.folder / "state" / "accounts"

    def account(self, name: str) -> StoredAccount:
        found = AccountStore(self.accounts).read(name)
        assert found is not None
        return found

    def store(self, account: StoredAccount) -> None:
        AccountStore(self.accounts).write(account, "file")

    def everything(self) -> bytes:
        """The content of every file but those of accounts."""
        files = [path for path in self.folder.rglob("*") if path.is_file()]
        return b"".join(one.read_bytes() for one in files if self.accounts not in one.parents)
