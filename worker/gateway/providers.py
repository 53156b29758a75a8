"""Model providers: the built-in ones, and those of the configuration. Data and checks only.

provider_choice.py chooses among them. A configuration that redefines a built-in name is an error.
"""

import os
from collections.abc import Mapping
from urllib.parse import urlsplit

import msgspec

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.protocol.sampling import Wire
from swarm.mailbox.protocol.spec import ProviderSpec

BUILT_IN_IDS = ("openai", "anthropic", "ollama", "lmstudio", "llamacpp", "local")
LOCAL_SERVERS = ("ollama", "lmstudio", "llamacpp")
_WIRES: dict[str, Wire] = {
    "responses": "responses",
    "chat": "chat",
    "messages": "messages",
    "local": "local",
    "scripted": "scripted",
}


class ProviderError(UsageError):
    """A provider cannot be used as configured, or is unknown."""

    exit_code = 5


def built_in_providers(environment: Mapping[str, str] = os.environ) -> tuple[ProviderSpec, ...]:
    """The providers that need no configuration.

    Args:
        environment: `OPENAI_BASE_URL`, `ANTHROPIC_BASE_URL` and `OLLAMA_HOST` change addresses.
    """
    openai = environment.get("OPENAI_BASE_URL", "").strip() or "https://api.openai.com/v1"
    anthropic = environment.get("ANTHROPIC_BASE_URL", "").strip() or "https://api.anthropic.com"
    ollama = _ollama_base(environment.get("OLLAMA_HOST", "").strip())
    return (
        ProviderSpec(
            id="openai",
            name="OpenAI",
            base_url=openai,
            env_key="OPENAI_API_KEY",
            env_key_instructions="keys are made at https://platform.openai.com/api-keys",
            env_http_headers={
                "openai-organization": "OPENAI_ORGANIZATION",
                "openai-project": "OPENAI_PROJECT",
            },
            remote_compaction=True,
        ),
        ProviderSpec(
            id="anthropic",
            name="Anthropic",
            base_url=messages_root(anthropic),
            wire_api="messages",
            env_key="ANTHROPIC_API_KEY",
            env_key_instructions="keys are made at https://platform.claude.com/settings/keys",
            continues_text=True,
        ),
        _local_server("ollama", "Ollama", f"{ollama}/v1"),
        _local_server("lmstudio", "LM Studio", "http://127.0.0.1:1234/v1", continues_text=False),
        _local_server("llamacpp", "llama.cpp server", "http://127.0.0.1:8080/v1"),
        ProviderSpec(id="local", name="embedded model", wire_api="local", tolerant_tool_calls=True),
    )


def _local_server(
    id_: str, name: str, base_url: str, *, continues_text: bool = True
) -> ProviderSpec:
    return ProviderSpec(
        id=id_,
        name=name,
        base_url=base_url,
        wire_api="chat",
        tolerant_tool_calls=True,
        continues_text=continues_text,
    )


def messages_root(base_url: str) -> str:
    """The base URL with `/v1`. People write it with and without."""
    root = base_url.rstrip("/")
    return root if root.endswith("/v1") else f"{root}/v1"


def _ollama_base(host: str) -> str:
    """`OLLAMA_HOST` as a URL without a path: it may be a host, a host and port, or a URL."""
    if not host or host.startswith("0.0.0.0"):
        return "http://127.0.0.1:11434"
    parts = urlsplit(host if "://" in host else f"http://{host}")
    port = parts.port or (443 if parts.scheme == "https" else 11434)
    name = parts.hostname or "127.0.0.1"
    return f"{parts.scheme}://{f'[{name}]' if ':' in name else name}:{port}"


def all_providers(configured: tuple[ProviderSpec, ...]) -> dict[str, ProviderSpec]:
    """Configured providers first, then the built-in ones. Raises ProviderError."""
    providers: dict[str, ProviderSpec] = {}
    built_in = {provider.id: provider for provider in built_in_providers()}
    for provider in configured:
        if provider.account is not None and provider.account.provider in built_in:
            providers[provider.id] = _with_account(built_in[provider.account.provider], provider)
            continue
        if provider.id in BUILT_IN_IDS:
            raise ProviderError(
                f"model_providers.{provider.id}: built-in providers cannot be redefined; rename "
                f"yours, for example to {provider.id}-custom"
            )
        checked = check_provider(provider)
        if provider.wire_api == "messages":
            root = messages_root(provider.base_url)
            checked = msgspec.structs.replace(checked, base_url=root)
        providers[provider.id] = checked
    return providers | {id_: one for id_, one in built_in.items() if id_ not in providers}


def _with_account(built_in: ProviderSpec, given: ProviderSpec) -> ProviderSpec:
    """The built-in provider with the key, and where it says so the address, of an account."""
    is_own = given.id == built_in.id
    return msgspec.structs.replace(
        built_in,
        id=given.id,
        name=built_in.name if is_own else given.id,
        base_url=given.base_url or built_in.base_url,
        env_key=built_in.env_key if is_own else given.env_key,
        http_headers=built_in.http_headers | given.http_headers,
        env_http_headers={
            **(built_in.env_http_headers if is_own else {}),
            **given.env_http_headers,
        },
        account=given.account,
    )


def check_provider(provider: ProviderSpec) -> ProviderSpec:
    """The provider itself, if its values are valid. Raises ProviderError naming the key."""
    where = f"model_providers.{provider.id}"
    if provider.wire_api not in _WIRES:
        known = ", ".join(_WIRES)
        raise ProviderError(f"{where}.wire_api: {provider.wire_api!r} is not one of {known}")
    if provider.wire_api in {"responses", "chat", "messages"}:
        parts = urlsplit(provider.base_url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise ProviderError(
                f"{where}.base_url: {provider.base_url!r} is not an http or https address"
            )
    if provider.continues_text and provider.wire_api == "responses":
        raise ProviderError(
            f"{where}.continues_text: on the responses wire nothing can be gone on with in the "
            "middle of a text; leave it out, or set `wire_api`"
        )
    least = {
        "request_max_retries": (provider.request_max_retries, 0),
        "stream_max_retries": (provider.stream_max_retries, 0),
        "stream_idle_timeout_ms": (provider.stream_idle_timeout_ms, 1),
    }
    for name, (number, smallest) in least.items():
        if number < smallest:
            raise ProviderError(f"{where}.{name}: {number} is too small")
    if provider.key_header and not is_header(provider.key_header, ""):
        raise ProviderError(f"{where}.key_header: {provider.key_header!r} is not a header's name")
    for name, value in provider.http_headers.items():
        if not is_header(name, value):
            raise ProviderError(f"{where}.http_headers.{name}: not a valid header")
    return provider


def is_header(name: str, value: str) -> bool:
    """True if both are valid in an HTTP request: printable ASCII, and no blank in the name."""
    if not name or not (name + value).isascii() or not value.isprintable():
        return False
    return all(sign.isalnum() or sign in "!#$%&'*+-.^_`|~" for sign in name)


def key_problem(provider: ProviderSpec, keys: Mapping[str, str]) -> str | None:
    """Why the provider cannot be used with these keys, and what to do; None if it can."""
    if provider.env_key is None:
        return None
    key = keys.get(provider.env_key, "").strip()
    hint = f" ({provider.env_key_instructions})" if provider.env_key_instructions else ""
    if not key:
        return (
            f"provider {provider.id} needs a key: set the environment variable "
            f"{provider.env_key}, or type `swarm login {provider.id}`{hint}"
        )
    if not is_header("authorization", key):
        return (
            f"the key in {provider.env_key} has characters that no header may hold: copy it "
            f"again{hint}"
        )
    return None


def key_source(provider: ProviderSpec) -> str | None:
    """Where its key comes from, for texts; None: it has none."""
    if provider.account is not None:
        return f"of the account {provider.account.name} or in {provider.env_key}"
    if provider.key_command is not None:
        return f"from {provider.key_command.what}"
    if provider.key_file:
        return f"in the file {provider.key_file}"
    return None if provider.env_key is None else f"in {provider.env_key}"


def wire_of(provider: ProviderSpec) -> Wire:
    """The wire as the protocol names it."""
    return _WIRES[provider.wire_api]
