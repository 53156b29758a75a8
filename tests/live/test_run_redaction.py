"""A secret that a task, a command or a model says is in no file of the run and in nothing it shows.

Every secret is put together here from parts, so that this file holds none.
"""

import base64
import json
import tarfile
from pathlib import Path

import pytest
import trio

from swarm.mailbox.protocol.records import RunCompleted

pytestmark = [pytest.mark.live, pytest.mark.usefixtures("started_anew")]
LIMIT_S = 60
KEY = "sentinel-" + "7f3a9c1e5b2d8460" + '-"quoted"\\back'
BODY = "a1B2c3D4e5F6g7H8i9J0" * 3
PASSWORD = "Hx7-" + "pass-word-91"
SHAPED = {  # by the rule that counts it
    "stripe": "sk_" + "live_" + BODY[:24],
    "npm": "npm_" + BODY[:36],
    "pypi": "pypi-" + "AgEIcHlwaS5vcmc" + BODY[:40],
    "google-oauth": "ya29." + BODY,
    "github": "ghp_" + BODY[:36],
}
BASE64 = [base64.b64encode(b"x" * count + KEY.encode()).decode() for count in range(3)]
FORMS = (KEY, json.dumps(KEY)[1:-1], json.dumps(json.dumps(KEY))[3:-3], KEY.encode().hex())
PRINTED = {
    "the key": f"{KEY} and on\n",
    "after a newline": f"one\n{KEY}\ntwo\n",
    "after a tab": f"one\t{KEY}\ttwo\n",
    "as JSON": json.dumps({"key": KEY, "again": json.dumps({"key": KEY})}) + "\n",
    "in base64": "\n".join(BASE64),
    "in hex": KEY.encode().hex() + "\n",
    "one a line": "".join(f"{one}\n" for one in SHAPED.values()),
    "after tabs": "".join(f"\t{one}" for one in SHAPED.values()),
    "a password": f"PGPASSWORD={PASSWORD}\nDATABASE_URL=postgres://me:{PASSWORD}@db/app\n",
}
SECRETS = (*FORMS, *(one[4:-4] for one in BASE64), *SHAPED.values(), PASSWORD)


def command(text: str, *, to: str = "1") -> dict[str, object]:
    """A call whose words do not hold what it prints."""
    hidden = base64.b64encode(base64.b64encode(text.encode())).decode()
    script = f"echo {hidden} | base64 -d | base64 -d >&{to}"
    return {"calls": [{"name": "exec_command", "arguments": {"cmd": script}}]}


def shown(seen: dict[str, bytes]) -> list[str]:
    return [f"{one[:9]}… in {where}" for where, text in seen.items() for one in SECRETS
            if one.encode() in text]  # fmt: skip


def files_below(*folders: Path) -> dict[str, bytes]:
    return {
        str(path): path.read_bytes()
        for folder in folders
        for path in folder.rglob("*")
        if path.is_file()
    }


def members_of(archive: Path) -> dict[str, bytes]:
    with tarfile.open(archive) as packed:
        files = {one.name: packed.extractfile(one) for one in packed.getmembers()}
        return {f"export of {name}": file.read() for name, file in files.items() if file}


async def listings(rig) -> dict[str, bytes]:
    """What everything says that shows a run."""
    archive = rig.folder / "run.tar.gz"
    found: dict[str, bytes] = {}
    for words in (
        ("show", rig.run_id), ("show", rig.run_id, "--json"), ("log", rig.run_id),
        ("log", rig.run_id, "--json"), ("ps", "--all"), ("ps", "--all", "--json"),
        ("result", rig.run_id), ("export", rig.run_id, str(archive)),
    ):  # fmt: skip
        ended = await (await rig.start(*words)).wait_end()
        found[" ".join(words)] = (ended.out + ended.err).encode()
    return {**found, **members_of(archive)}


async def run_to_its_end(rig, *words: str) -> dict[str, bytes]:
    rig.environment["OPENAI_API_KEY"] = KEY
    with trio.fail_after(LIMIT_S):
        ended = await (await rig.start("run", *words)).wait_end()
        assert ended.code == 0, ended.err
        said = {"stdout": ended.out.encode(), "stderr": ended.err.encode()}
        return said | files_below(rig.places.folder) | await listings(rig)


@pytest.mark.parametrize("form", ["--json", "--plain"])
async def test_what_commands_and_models_say_is_hidden_everywhere_and_counted(rig, form):
    said = "; ".join((*FORMS, *BASE64, *SHAPED.values(), f"postgres://me:{PASSWORD}@db/app"))
    provider = rig.script(
        *map(command, PRINTED.values()),
        command(PRINTED["one a line"], to="2"),
        {"reasoning": said, "text": said, **command(KEY)},
        {"text": said},
    )
    seen = await run_to_its_end(rig, "-p", "do it", "--provider", provider, form)
    assert shown(seen) == []
    outputs = rig.outputs()
    assert len(outputs) == len(PRINTED) + 2
    assert all("[redacted]" in text for text in outputs)
    counted = rig.bodies(RunCompleted)[-1].redacted
    assert counted.keys() >= {"key-of-this-run", *SHAPED, "variable", "url-password"}
    if form == "--json":
        last = json.loads(seen["stdout"].splitlines()[-1])
        assert (last["type"], last["redacted"]) == ("run.completed", counted)


@pytest.mark.parametrize("by", ["file", "prompt"])
async def test_a_task_with_secrets_in_it_is_saved_without_them(rig, by):
    text = f"Use {KEY} and these:\n" + "".join(f"{one}\n" for one in (KEY, *SHAPED.values()))
    task = rig.folder / "task.md"
    task.write_text(text)
    words = (str(task),) if by == "file" else ("-p", text)
    provider = rig.script({"text": "done"})
    seen = await run_to_its_end(rig, *words, "--provider", provider, "--json")
    assert shown(seen) == []
    assert b"Use [redacted] and these:" in b"".join(seen.values())
