"""Secrets: what a command prints and a model says must be in no file, stream or listing of a run.

Every secret is put together here from parts, so that this file holds none.
"""

import base64
import json
import tarfile
from collections.abc import Callable
from pathlib import Path

from attack import Attack, Call, command, run_ended
from attack_testbed import AttackTestbed

KEY = "sentinel-" + "7f3a9c1e5b2d8460" + '-"quoted"\\back'
_BODY = "a1B2c3D4e5F6g7H8i9J0" * 3
BARE_SECRETS = {
    "github": "ghp_" + _BODY[:36],
    "stripe": "sk_" + "live_" + _BODY[:24],
    "npm": "npm_" + _BODY[:36],
    "pypi": "pypi-" + "AgEIcHlwaS5vcmc" + _BODY[:40],
    "google": "ya29." + _BODY,
    "openai": "sk-" + "proj-" + _BODY[:40],
    "aws": "AKIA" + "A1B2C3D4E5F6G7H8",
}
_PASSWORD = "Hx7-" + "pass-word-91"
_KEYED = {"OPENAI_API_KEY": KEY}


def _print(text: str) -> Call:
    """A command whose words do not hold the text that it prints."""
    encoded = base64.b64encode(base64.b64encode(text.encode())).decode()
    return command(f"echo {encoded} | base64 -d | base64 -d")


def _leaks(*secrets: str) -> Callable[[AttackTestbed], str]:
    """Where any of these is: in what the run printed, its folder, or what others print of it."""

    def look(scene: AttackTestbed) -> str:
        seen = {"--json": scene.output, **_files(scene), **_listings(scene)}
        shown = (f"{where}: {one[:8]}…" for where, text in seen.items() for one in secrets
                 if one in text)  # fmt: skip
        return "; ".join(shown)

    return look


def _hidden(scene: AttackTestbed) -> str:
    """It was printed, and hidden."""
    return run_ended(scene) or ("" if "[redacted]" in scene.output else "nothing was printed")


def _files(scene: AttackTestbed) -> dict[str, str]:
    runs = scene.state / "state" / "runs"
    files = [path for path in runs.rglob("*") if path.is_file()]
    return {str(path.relative_to(runs)): path.read_text("utf-8", "replace") for path in files}


def _listings(scene: AttackTestbed) -> dict[str, str]:
    run = scene.run_id()
    packed = scene.tmp / "run.tar.gz"
    told = {
        " ".join(words): scene.run_program(scene.swarm(*words))[0]
        for words in (("show", run), ("log", run), ("log", run, "--json"), ("ps", "--all"),
                      ("export", run, str(packed)))
    }  # fmt: skip
    return {**told, **_members(packed)}


def _members(packed: Path) -> dict[str, str]:
    if not packed.exists():
        return {}
    with tarfile.open(packed) as archive:
        found = {one.name: archive.extractfile(one) for one in archive.getmembers()}
        return {
            f"export of {name}": file.read().decode("utf-8", "replace")
            for name, file in found.items()
            if file is not None
        }


_KEY_ENCODINGS = (
    KEY,
    json.dumps(KEY)[1:-1],
    base64.b64encode(f"u:{KEY}".encode()).decode(),
    base64.urlsafe_b64encode(f"x{KEY}".encode()).decode(),
    KEY.encode().hex(),
)
PLAYS = (
    Attack(
        name="a bare secret a line, as in a file of settings, is shown",
        calls=lambda scene: [_print("\n".join(BARE_SECRETS.values()) + "\n")],
        find_escape=_leaks(*BARE_SECRETS.values()),
        tried=_hidden,
        fast=True,
    ),
    Attack(
        name="secrets after tabs, colours and escapes are shown",
        calls=lambda scene: [
            _print("".join(f"\t{one}\x1b[0m{one}\\n{one}" for one in BARE_SECRETS.values()))
        ],
        find_escape=_leaks(*BARE_SECRETS.values()),
        tried=_hidden,
    ),
    Attack(
        name="a password of a variable or of a URL is shown",
        calls=lambda scene: [
            _print(f"PGPASSWORD={_PASSWORD}\nDATABASE_URL=postgres://me:{_PASSWORD}@db/app\n")
        ],
        find_escape=_leaks(_PASSWORD),
        tried=_hidden,
    ),
    Attack(
        name="the lines of a private key are shown",
        calls=lambda scene: [
            _print(f"-----BEGIN RSA PRIVATE KEY-----\n{_BODY}\n-----END RSA PRIVATE KEY-----\n")
        ],
        find_escape=_leaks(_BODY),
        tried=_hidden,
    ),
    Attack(
        name="a key of the run is shown: as it is, escaped, in base64 or in hex",
        calls=lambda scene: [_print("".join(f"a{form}b\n" for form in _KEY_ENCODINGS))],
        find_escape=_leaks(*_KEY_ENCODINGS, *(form[4:-4] for form in _KEY_ENCODINGS)),
        tried=_hidden,
        environment=_KEYED,
        fast=True,
    ),
    Attack(
        name="a key of the run in a prompt is shown as its title",
        calls=lambda scene: [_print(KEY)],
        find_escape=_leaks(*_KEY_ENCODINGS),
        tried=_hidden,
        options=lambda scene: ("-p", f"use {KEY} for it"),
        environment=_KEYED,
    ),
)
