"""The environment variables that name a proxy. No I/O.

Their values may hold a password: code that passes an environment on must filter them here.
"""

from collections.abc import Mapping

PROXY_VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "FTP_PROXY", "ALL_PROXY", "NO_PROXY")


def proxy_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Only the proxy variables, in either case."""
    return {name: v for name, v in environment.items() if name.upper() in PROXY_VARIABLES}


def without_proxy_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """All variables except the proxy variables."""
    return {name: v for name, v in environment.items() if name.upper() not in PROXY_VARIABLES}
