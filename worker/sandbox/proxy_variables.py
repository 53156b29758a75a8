"""Environment variables that lead a command's programs to the network proxy, also Node's `fetch`.

Node uses the proxy by a module that every Node process loads first. The module is required only
where a command can read it, because a Node that cannot find it does not start at all. What the user
set in NODE_OPTIONS stays.

Source: Codex's network proxy; swarm's own marks have other names.
"""

import os
from pathlib import Path

import msgspec

from swarm.mailbox.base.path_rules import is_within
from swarm.mailbox.protocol.values.limits import NetworkPolicy

from .sandbox_plan import SandboxPlan

PROXY_PORT = 3128  # in the command's own network namespace, so the port is always free
_URL = f"http://127.0.0.1:{PROXY_PORT}"
_SOCKS_URL = f"socks5h://127.0.0.1:{PROXY_PORT}"  # same port: the first byte differs
_NOT_THROUGH_IT = "localhost,127.0.0.1,::1,169.254.0.0/16,10.0.0.0/8,172.16.0.0/12,192.168.0.0/16"
_HTTP_NAMES = """
    HTTP_PROXY HTTPS_PROXY http_proxy https_proxy YARN_HTTP_PROXY YARN_HTTPS_PROXY
    npm_config_http_proxy npm_config_https_proxy npm_config_proxy
    NPM_CONFIG_HTTP_PROXY NPM_CONFIG_HTTPS_PROXY NPM_CONFIG_PROXY
    BUNDLE_HTTP_PROXY BUNDLE_HTTPS_PROXY PIP_PROXY DOCKER_HTTP_PROXY DOCKER_HTTPS_PROXY
    WS_PROXY WSS_PROXY ws_proxy wss_proxy
""".split()  # noqa: SIM905
_ALL_NAMES = ("ALL_PROXY", "all_proxy", "FTP_PROXY", "ftp_proxy")
_NO_NAMES = (
    "NO_PROXY", "no_proxy", "npm_config_noproxy", "NPM_CONFIG_NOPROXY", "YARN_NO_PROXY",
    "BUNDLE_NO_PROXY",
)  # fmt: skip


_TRUST_NAMES = (
    "SSL_CERT_FILE", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "PIP_CERT", "NODE_EXTRA_CA_CERTS",
    "GIT_SSL_CAINFO", "AWS_CA_BUNDLE", "npm_config_cafile",
)  # fmt: skip


def proxy_environment(policy: NetworkPolicy, *, ca_bundle: str = "") -> dict[str, str]:
    """The variables; they replace existing ones, whose proxies cannot be reached from inside.

    Args:
        ca_bundle: Certificates to trust, of a proxy that decrypts tunnels.
    """
    everything = _SOCKS_URL if policy.enable_socks5 and policy.mode == "full" else _URL
    return {
        **dict.fromkeys(_HTTP_NAMES, _URL),
        **dict.fromkeys(_ALL_NAMES, everything),
        **dict.fromkeys(_NO_NAMES, _NOT_THROUGH_IT),
        **(dict.fromkeys(_TRUST_NAMES, ca_bundle) if ca_bundle else {}),
        "ELECTRON_GET_USE_PROXY": "true",
        "NODE_USE_ENV_PROXY": "1",  # Node from 22.21 and 24 on; older ones: `node_fetch.cjs`
        "SWARM_NETWORK_PROXY_ACTIVE": "1",
        "SWARM_NETWORK_ALLOW_LOCAL_BINDING": "1" if policy.allow_local_binding else "0",
    }


NODE_PRELOAD = os.path.realpath(Path(__file__).with_name("node_fetch.cjs"))


def with_node_preload(plan: SandboxPlan) -> SandboxPlan:
    """The plan in which the module can be read, where it may be shown at all."""
    if plan.proxied is None or not _may_show(plan):
        return plan
    return msgspec.structs.replace(
        plan, visible=tuple(dict.fromkeys((*plan.visible, NODE_PRELOAD)))
    )


def node_options(plan: SandboxPlan, said: str) -> dict[str, str]:
    """NODE_OPTIONS with the module appended to `said`; {} where the module cannot be read."""
    if plan.proxied is None or NODE_PRELOAD not in plan.visible:
        return {}
    word = '"' + NODE_PRELOAD.replace("\\", "\\\\").replace('"', '\\"') + '"'
    ours = f"--require {word}"
    if ours in said:  # the launcher of a locked role wraps again what its agent has wrapped
        return {}
    return {"NODE_OPTIONS": f"{said} {ours}".strip()}


def _may_show(plan: SandboxPlan) -> bool:
    closed = (*plan.hidden, *plan.hidden_files, *plan.denied, *plan.denied_files)
    return Path(NODE_PRELOAD).is_file() and not any(is_within(NODE_PRELOAD, one) for one in closed)
