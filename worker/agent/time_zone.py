"""The machine's time zone, as told to the model."""

import os


def local_timezone(environment: dict[str, str]) -> str:
    """Return the IANA name of the local time zone; Etc/UTC if the system does not tell it."""
    named = environment.get("TZ", "").lstrip(":")
    if named and "/" in named and not named.startswith("/"):
        return named
    try:
        link = os.readlink("/etc/localtime")  # noqa: PTH115 — a Path would cost each agent 15 pages
    except OSError:
        return "Etc/UTC"
    _, found, zone = link.partition("zoneinfo/")
    return zone if found else "Etc/UTC"
