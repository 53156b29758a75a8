"""Variables of the environment by which programs find a proxy. Pure.

Guards: their values may hold a password; who passes an environment on asks here which they are.
"""

from collections.abc import Mapping

PROXY_VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "FTP_PROXY", "ALL_PROXY", "NO_PROXY")


def proxy_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Only these variables, in either case."""
    return {name: v for name, v in environment.items() if name.upper() in PROXY_VARIABLES}


def without_proxy_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """All but these."""
    return {name: v for name, v in environment.items() if name.upper() not in PROXY_VARIABLES}
