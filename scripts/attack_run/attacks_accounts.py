"""Accounts: no command reads or replaces what is stored, and nobody else ends a sign-in."""

import json
import os
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar
from urllib.parse import parse_qs, urlsplit

from attack import Attack, Call, command, commands_ran
from attack_testbed import SECRET, AttackTestbed

_NAME = "openai@there"
_ADDRESS = "address-of-the-login"


def _stored() -> str:
    return json.dumps(
        {"name": "openai", "kind": "key", "origin": "https://api.openai.com:443", "key": SECRET}
    )


def _prepare_account(scene: AttackTestbed) -> None:
    for folder in ("accounts", "mcp-logins"):
        place = scene.state / "state" / folder
        place.mkdir(parents=True)
        (place / "openai.json").write_text(_stored(), "utf-8")
        (place / "openai.json").chmod(0o600)
    scene.chown_files()


def _takes_and_plants(scene: AttackTestbed) -> Sequence[Call]:
    calls: list[Call] = []
    for name in ("accounts", "mcp-logins"):
        folder = scene.state / "state" / name
        calls += [
            command(f"cat {folder}/*; ls -laR {folder}; cp -r {folder} taken; grep -r . taken"),
            command(f"mkdir -p {folder}; echo x > {folder}/openai.json; touch {folder}/x.json"),
            command(f"mv {folder} {folder}2; mkdir {folder}; echo x > {folder}/openai.json"),
            command(f"ln -s {folder} way; cat way/*; echo x > way/x.json; rm -rf {folder}"),
            command(f"ln {folder}/openai.json hard; cat hard; truncate -s 0 {folder}/openai.json"),
            command(f"for p in /proc/[0-9]*; do cat $p/root{folder}/*; done 2>/dev/null"),
        ]
    return calls


def _account_touched(scene: AttackTestbed) -> str:
    for name in ("accounts", "mcp-logins"):
        folder = scene.state / "state" / name
        file = folder / "openai.json"
        if not file.is_file() or file.read_text("utf-8") != _stored():
            return f"what is stored in {name} is gone or changed"
        if others := {path.name for path in folder.iterdir()} - {file.name}:
            return f"something was planted in {name}: {', '.join(sorted(others))}"
    if SECRET in scene.output:
        return "a command printed it"
    runs = [path for path in (scene.state / "state/runs").rglob("*") if path.is_file()]
    is_read = any(SECRET in path.read_text("utf-8", "replace") for path in runs)
    return "a command read it, or the run kept a copy" if is_read else ""


class _Issuer(BaseHTTPRequestHandler):
    """Metadata, and a token endpoint that somebody reaches only with an answer that was taken."""

    taken: ClassVar[list[str]] = []
    base = ""

    def do_GET(self) -> None:
        """The metadata."""
        endpoints = {name: f"{self.base}/{name}" for name in ("authorization_endpoint",
                                                              "token_endpoint")}  # fmt: skip
        self._answer(200, {"issuer": self.base, **endpoints})

    def do_POST(self) -> None:
        """A code that was taken."""
        body = self.rfile.read(int(self.headers.get("content-length", "0")))
        self.taken.append(parse_qs(body.decode()).get("code", [""])[0])
        self._answer(200, {"access_token": "of-somebody-else", "refresh_token": "r"})

    def _answer(self, status: int, value: object) -> None:
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""


@contextmanager
def _login(scene: AttackTestbed) -> Iterator[None]:
    """A person's `swarm login there` that waits for its browser, beside the run."""

    class Handler(_Issuer):
        """The issuer of this play alone."""

        taken: ClassVar[list[str]] = []

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        base = f"http://127.0.0.1:{server.server_port}"
        Handler.base = base
        threading.Thread(target=server.serve_forever, daemon=True).start()
        (scene.state / "config.toml").write_text(
            f'[login.there]\nprovider = "openai"\nissuer = "{base}"\nclient_id = "c"\n', "utf-8"
        )
        scene.chown_files()
        process = subprocess.Popen(
            scene.swarm("login", "there", "--no-browser", "--timeout", "60"),
            env=scene.environment({}), cwd=scene.home, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip
        try:
            (scene.folder / _ADDRESS).write_text(_address(process), "utf-8")
            (scene.folder / _ADDRESS).chmod(0o644)
            yield
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            server.shutdown()


def _address(process: "subprocess.Popen[str]") -> str:
    assert process.stderr is not None
    for line in process.stderr:
        if "code_challenge" in line:
            return line.strip()
    return ""


def _where(scene: AttackTestbed) -> tuple[int, str, str]:
    """Port, path and state of the login's answer."""
    query = parse_qs(urlsplit((scene.folder / _ADDRESS).read_text("utf-8")).query)
    redirect = urlsplit(query["redirect_uri"][0])
    return redirect.port or 0, redirect.path, query["state"][0]


def _from_a_command(scene: AttackTestbed) -> Sequence[Call]:
    """Beside guesses: what a page could have the person's browser send, state and all."""
    port, path, state = _where(scene)
    base = f"http://127.0.0.1:{port}{path}"
    return [
        command(f"curl -sm 5 '{base}?code=evil&state=guess'; curl -sm 5 '{base}?code=evil'"),
        command(f"curl -sm 5 -d 'code=evil&state={state}' '{base}'"),
        command(f"curl -sm 5 -X POST '{base}?code=evil&state={state}'"),
        command(f"curl -sm 5 '{base}?code=evil&state={state}&state={state}'"),
        command(f"curl -sm 5 'http://127.0.0.1:{port}/?code=evil&state={state}'"),
    ]


def _somebody_ended_it(scene: AttackTestbed) -> str:
    """After the commands: another user who knows the state, and a second listener on its port."""
    port, path, state = _where(scene)
    if os.geteuid() == 0:
        target = f"http://127.0.0.1:{port}{path}?code=evil&state={state}"
        who = ["setpriv", "--reuid=12345", "--regid=12345", "--clear-groups"]
        fetch = f"import urllib.request as r; print(r.urlopen({target!r}, timeout=5).status)"
        done = subprocess.run(
            [*who, "/usr/bin/python3", "-c", fetch], capture_output=True, text=True, check=False
        )
        if "200" in done.stdout:
            return "another user's answer was taken"
    with suppress(OSError), socket.create_server(("127.0.0.1", port)):
        return "somebody else could listen on its port"
    folder = scene.state / "state/accounts"
    if folder.is_dir() and list(folder.glob("*.json")):
        return f"an account was stored: {_NAME}"
    return ""


def _own_answer_counts(scene: AttackTestbed) -> str:
    """The sign-in had waited all the while: the person's own answer ends it."""
    port, path, state = _where(scene)
    fetch = f"http://127.0.0.1:{port}{path}?code=own&state={state}"
    said, _ = scene.run_program([*scene.argv_as_user(), "curl", "-sm", "10", fetch])
    waited = commands_ran(scene)
    return waited or ("" if "The login is done" in said else f"no login waited: {said[-200:]}")


PLAYS = (
    Attack(
        name="Commands read, move, link and plant stored keys where they may write all around",
        calls=_takes_and_plants,
        find_escape=_account_touched,
        prepare=_prepare_account,
        options=lambda scene: ("-a", "never", "--add-dir", str(scene.state / "state")),
        tried=commands_ran,
        fast=True,
    ),
    Attack(
        name="A page that posts, a guess and another user answer a person's sign-in",
        calls=_from_a_command,
        find_escape=_somebody_ended_it,
        background=_login,
        options=lambda _: ("-a", "never", "-s", "danger-full-access"),
        tried=_own_answer_counts,
        fast=True,
    ),
)
