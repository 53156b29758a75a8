"""Finds Codex keys that have no effect here, so that they can be reported. Pure.

A key has its effect or is reported, so that nobody relies on a setting that does nothing. A value
that equals what swarm does anyway is not reported.
"""

from collections.abc import Iterator

from ..key_positions import KeyPath
from ..schema import CODEX_INNER_KEYS, CODEX_KEYS, Toml
from .merge import Layer, as_table, is_table

_READ_ELSEWHERE = frozenset({"projects"})  # used in trust.py, for "untrusted"
# Keys within supported tables; `*` is any name.
_INNER = (
    *(tuple(key.split(".")) for key in sorted(CODEX_INNER_KEYS)),
    ("model_providers", "*", "supports_websockets"),
    ("model_providers", "*", "websocket_connect_timeout_ms"),
    ("shell_environment_policy", "experimental_use_profile"),
    ("tools", "web_search"),
    *(
        (*above, key)
        for above in (("network",), ("permissions", "*", "network"))
        for key in (
            "proxy_url", "socks_url", "enable_socks5_udp", "dangerously_allow_non_loopback_proxy"
        )
    ),
)  # fmt: skip
_AS_IT_IS: dict[str, object] = {
    "allow_login_shell": True,
    "analytics.enabled": False,
    "check_for_update_on_startup": False,
    "experimental_use_unified_exec_tool": True,
    "feedback.enabled": False,
    "tools.web_search": False,
    "web_search": "disabled",
    "dangerously_allow_non_loopback_proxy": False,
    "enable_socks5_udp": False,
    "experimental_use_profile": True,
    "interrupt_message": True,
    "supports_websockets": False,
}


def keys_without_effect(layer: Layer) -> Iterator[KeyPath]:
    """Each key of the layer without effect, in the order of the file."""
    for key, value in layer.values.items():
        if key in CODEX_KEYS and key not in _READ_ELSEWHERE:
            yield from _of_codex(key, value)
        for pattern in _INNER:
            if pattern[0] == key:
                yield from _inside(layer.values, pattern)


def _of_codex(key: str, value: object) -> Iterator[KeyPath]:
    """Report a table's keys one by one: `history.persistence`, `hooks.stop`."""
    if is_table(value) and value:
        for inner, given in as_table(value).items():
            if not _says_what_is(f"{key}.{inner}", given):
                yield key, inner
    elif not _says_what_is(key, value):
        yield (key,)


def _inside(table: Toml, pattern: KeyPath, above: KeyPath = ()) -> Iterator[KeyPath]:
    step, rest = pattern[0], pattern[1:]
    for key in table if step == "*" else (step,):
        if key not in table:
            continue
        if rest:
            yield from _inside(as_table(table[key]), rest, (*above, key))
        elif not _says_what_is(".".join((*above, key)), table[key]) and not _says_what_is(
            key, table[key]
        ):
            yield (*above, key)


def _says_what_is(key: str, value: object) -> bool:
    known = _AS_IT_IS.get(key)
    return type(value) is type(known) and value == known
