"""Which providers could answer now: keys by name only, local servers by asking them.

Nothing is sent but a plain GET of the model list, to loopback only; a key is never sent or shown.
"""

import http.client
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import msgspec

from swarm.mailbox.protocol.base import Value
from swarm.roles.config.schema import Config

from .providers import what_lacks

_LIMIT_S = 1.0
_MAX_BYTES = 1 << 20


class Check(Value):
    """One line of `doctor`. `state`: ok, warn, fail; `fix` is what a person types or changes."""

    name: str
    state: str
    detail: str = ""
    fix: str = ""

    @property
    def words(self) -> str:
        return f"{self.detail}; {self.fix}" if self.detail and self.fix else self.detail or self.fix

    def as_dict(self) -> dict[str, str]:
        """All fields, also empty ones."""
        return {name: getattr(self, name) for name in self.__struct_fields__}


def local_servers(environment: Mapping[str, str]) -> dict[str, str]:
    """Where the local servers listen that need no configuration."""
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
    """One check a provider, configured ones first."""
    checks = [
        _configured(name, what_lacks(name, table), table.env_key, environment)
        for name, table in config.model_providers.items()
    ]
    checks.append(_key("provider openai", "OPENAI_API_KEY", environment))
    checks.append(_key("provider anthropic", "ANTHROPIC_API_KEY", environment))
    servers = local_servers(environment)
    with ThreadPoolExecutor(len(servers)) as pool:
        answers = list(pool.map(ask_server, servers.values()))
    for (name, address), said in zip(servers.items(), answers, strict=True):
        state = "ok" if said is not None else "warn"
        detail = f"{address}: {said}" if said is not None else f"nobody answers at {address}"
        checks.append(Check(name=f"provider {name}", state=state, detail=detail))
    return checks


def _configured(
    name: str, lack: str | None, env_key: str | None, environment: Mapping[str, str]
) -> Check:
    if lack is not None:
        return Check(name=f"provider {name}", state="fail", detail=lack)
    if env_key is None:
        return Check(name=f"provider {name}", state="ok", detail="needs no variable")
    return _key(f"provider {name}", env_key, environment)


def _key(name: str, variable: str, environment: Mapping[str, str]) -> Check:
    if environment.get(variable, "").strip():
        return Check(name=name, state="ok", detail=f"{variable} is set")
    return Check(
        name=name, state="warn", detail=f"{variable} is not set", fix=f"export {variable}=…"
    )


def ask_server(address: str) -> str | None:
    """What a local server offers, in a few words; None if nobody answers."""
    parts = urlsplit(address)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=_LIMIT_S)
    try:
        connection.request("GET", f"{parts.path}/models")
        answer = connection.getresponse()
        body = answer.read(_MAX_BYTES)
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()
    try:
        listed = msgspec.json.decode(body, type=_ModelList).data or ()
    except msgspec.DecodeError:
        return f"answers with status {answer.status}, but not with a model list"
    return f"{len(listed)} models"


class _ModelList(msgspec.Struct):
    data: tuple[object, ...] | None = None
