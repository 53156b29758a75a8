"""Checks which providers could answer now: keys by name only, local servers by a request.

The only requests are plain GETs of what shows a server and of its model list, and only to loopback;
a key is never sent or shown.
"""

import http.client
import shutil
import socket
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from threading import Timer
from urllib.parse import urlsplit

import msgspec

from swarm.mailbox.base.bounded_formats import decode_json_as
from swarm.mailbox.base.own_distribution import line_for_extra
from swarm.mailbox.protocol.values.base import Value
from swarm.roles.base.local_servers import SIGNS, Sign, is_shown
from swarm.roles.config.schema import Config, ProviderTable

from ....parts.part_setup import lacking_part_library, part_accounts
from ..run_setup.provider_specs import key_source_field, provider_problem

_LIMIT_S = 1.0
_MAX_BYTES = 1 << 20


class Check(Value):
    """One line of `doctor`. `state`: ok, warn, fail; `fix` is what a person types or changes."""

    name: str
    state: str
    detail: str = ""
    fix: str = ""

    @classmethod
    def ok(cls, name: str, detail: str) -> "Check":
        return cls(name=name, state="ok", detail=detail)

    @classmethod
    def warn(cls, name: str, detail: str, *, fix: str = "") -> "Check":
        return cls(name=name, state="warn", detail=detail, fix=fix)

    @classmethod
    def fail(cls, name: str, detail: str, *, fix: str = "") -> "Check":
        return cls(name=name, state="fail", detail=detail, fix=fix)

    @property
    def summary(self) -> str:
        return f"{self.detail}; {self.fix}" if self.detail and self.fix else self.detail or self.fix

    def as_dict(self) -> dict[str, str]:
        """All fields, including empty ones."""
        return {name: getattr(self, name) for name in self.__struct_fields__}


def local_servers(environment: Mapping[str, str]) -> dict[str, str]:
    """Addresses of the local servers that need no configuration."""
    host = environment.get("OLLAMA_HOST", "").strip()
    parts = urlsplit(host if "://" in host else f"http://{host}")
    name = parts.hostname if parts.hostname not in {None, "", "0.0.0.0"} else "127.0.0.1"
    try:
        port = parts.port or 11434
    except ValueError:
        port = 11434
    return {
        "ollama": f"http://{name}:{port}/v1",
        "lmstudio": "http://127.0.0.1:1234/v1",
        "llamacpp": "http://127.0.0.1:8080/v1",
    }


def check_providers(config: Config, environment: Mapping[str, str]) -> list[Check]:
    """One check per provider, configured ones first."""
    checks = [
        _configured(name, table, environment) for name, table in config.model_providers.items()
    ]
    checks.append(_key("provider openai", "OPENAI_API_KEY", environment))
    checks.append(_key("provider anthropic", "ANTHROPIC_API_KEY", environment))
    checks = _with_accounts(checks, config)
    servers = local_servers(environment)
    with ThreadPoolExecutor(len(servers)) as pool:
        checks += pool.map(probe_server, servers, servers.values())
    return checks


def _with_accounts(checks: list[Check], config: Config) -> list[Check]:
    """The checks with the stored accounts: one of a provider stands in for a missing variable."""
    for line in part_accounts(config):
        title, detail = f"provider {line.account}", f"account {line.account}: {line.state}"
        fix = f"swarm login {line.account.partition('@')[2] or line.account}"
        own = Check.ok(title, detail) if line.usable else Check.fail(title, detail, fix=fix)
        places = [index for index, one in enumerate(checks) if one.name == title]
        if not places:
            checks.append(own)
        elif checks[places[0]].state == "ok":
            checks[places[0]] = Check.ok(title, f"{checks[places[0]].detail}; before the {detail}")
        else:
            checks[places[0]] = own
    return checks


def _configured(name: str, table: ProviderTable, environment: Mapping[str, str]) -> Check:
    title = f"provider {name}"
    if (lack := provider_problem(name, table)) is not None:
        return Check.fail(title, lack)
    if table.key_file:
        return _key_file(title, Path(table.key_file))
    if table.auth is not None:
        return _program(title, table.auth.command)
    if table.keyring is not None:
        if find_spec("keyring") is None:
            fix = line_for_extra("keyring")
            return Check.fail(title, "keyring is not installed", fix=fix)
        return Check.ok(title, f"keyring entry {table.keyring.service}")
    if (library := lacking_part_library(table)) is not None:
        return Check.fail(title, f"{library[0]} is not installed", fix=library[1])
    if (source := key_source_field(table)) is not None:
        return Check.ok(title, f"its key comes by `{source}`")
    if table.env_key is None:
        return Check.ok(title, "needs no variable")
    return _key(title, table.env_key, environment)


def _key_file(title: str, path: Path) -> Check:
    """Check the key file by its mode; it is not opened."""
    try:
        mode = path.stat().st_mode
    except OSError as error:
        return Check.fail(title, f"key_file {path}: {error.strerror}")
    if mode & 0o077:
        fix = f"chmod 600 {path}"
        return Check.fail(title, f"others may read {path}", fix=fix)
    return Check.ok(title, f"key_file {path}")


def _program(title: str, program: str) -> Check:
    """Check whether the program can be started; it is not run."""
    if shutil.which(program) is None:
        return Check.fail(title, f"auth.command {program}: not found")
    return Check.ok(title, f"the key comes from {program}")


def _key(name: str, variable: str, environment: Mapping[str, str]) -> Check:
    if environment.get(variable, "").strip():
        return Check.ok(name, f"{variable} is set")
    return Check.warn(name, f"{variable} is not set", fix=f"export {variable}=…")


def probe_server(name: str, address: str) -> Check:
    """What answers where the local server `name` would: itself, something else, or nobody."""
    title, root = f"provider {name}", address.removesuffix("/v1")
    listed = _fetch(f"{address}/models")
    if listed is None:
        return Check.warn(title, f"nobody answers at {address}")
    if not any(_shows(root, sign) for sign in SIGNS[name]):
        detail = f"what answers at {address} is no {name}"
        return Check.warn(title, detail, fix=f"a table [model_providers.NAME] with {address}")
    try:
        models = decode_json_as(listed, _ModelList).data or ()
    except msgspec.DecodeError:
        return Check.warn(title, f"{address} answers, but not with a model list")
    return Check.ok(title, f"{address}: {len(models)} models")


def _shows(root: str, sign: Sign) -> bool:
    path, shows = sign
    body = _fetch(root + path)
    return body is not None and is_shown(body, shows)


def _fetch(url: str) -> bytes | None:
    """What is at this address of the machine, whatever its status; None: nobody answers in time."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=_LIMIT_S)
    late = Timer(_LIMIT_S, _cut, [connection])  # also of an answer that comes byte by byte
    late.start()
    try:
        connection.request("GET", parts.path)
        return connection.getresponse().read(_MAX_BYTES)
    except (OSError, http.client.HTTPException, ValueError):
        return None
    finally:
        late.cancel()
        connection.close()


def _cut(connection: http.client.HTTPConnection) -> None:
    with suppress(OSError):
        if (open_socket := connection.sock) is not None:
            open_socket.shutdown(socket.SHUT_RDWR)


class _ModelList(msgspec.Struct):
    data: tuple[object, ...] | None = None
