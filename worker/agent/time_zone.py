"""The time zone of this machine, as the model is told it."""

import os


def local_timezone(environment: dict[str, str]) -> str:
    """The IANA name of the local time zone, as far as the system tells; else Etc/UTC."""
    named = environment.get("TZ", "").lstrip(":")
    if named and "/" in named and not named.startswith("/"):
        return named
    try:
        link = os.readlink("/etc/localtime")  # noqa: PTH115 — a Path would cost each agent 15 pages
    except OSError:
        return "Etc/UTC"
    _, found, zone = link.partition("zoneinfo/")
    return zone if found else "Etc/UTC"
