"""Variables of the environment by which programs find a proxy. Pure.

Guards: their values may hold a password; who passes an environment on asks here which they are.
"""

from collections.abc import Mapping

PROXY_NAMES = ("HTTP_PROXY", "HTTPS_PROXY", "FTP_PROXY", "ALL_PROXY", "NO_PROXY")


def proxies_of(environment: Mapping[str, str]) -> dict[str, str]:
    """Only these variables, in either case."""
    return {name: v for name, v in environment.items() if name.upper() in PROXY_NAMES}


def without_proxies(environment: Mapping[str, str]) -> dict[str, str]:
    """All but these."""
    return {name: v for name, v in environment.items() if name.upper() not in PROXY_NAMES}
