"""`swarm exec` as a script starts it: stdin, events, sessions, and what is refused."""

import json
import sys
from pathlib import Path

import pytest

from support.forked_programs import Setting, run_program
from swarm.mailbox.protocol.ops import ImageInput
from swarm.mailbox.protocol.records import AgentSpawned, InputPosted
from swarm.mailbox.protocol.values.limits import ReadOnly

pytestmark = pytest.mark.live
LIMIT_S = 60
PROGRAM = str(Path(sys.executable).parent / "swarm")
PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c6360"
    "f8cf500f0003860180b4bb6b400000000049454e44ae426082"
)


async def run_exec(
    rig, *words: str, stdin: bytes = b"", in_repository: bool = True, **variables: str
) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of one `swarm exec`."""
    if in_repository:
        (rig.work / ".git").mkdir(exist_ok=True)
    setting = Setting({**rig.environment, **variables}, rig.work)
    done = run_program([PROGRAM, "exec", *words], setting, stdin=stdin, limit_s=LIMIT_S)
    return done.returncode, done.stdout, done.stderr


def use(rig, *turns: dict) -> None:
    (rig.home / "config.toml").write_text(f'model_provider = "{rig.script(*turns)}"\n')


def events(out: str) -> list[dict]:
    return [json.loads(line) for line in out.splitlines()]


async def test_a_prompt_on_stdin_runs_read_only_and_asks_nobody(rig):
    command = {"calls": [{"name": "exec_command", "arguments": {"cmd": "touch made"}}]}
    use(rig, command, {"text": "done"})
    code, out, err = await run_exec(rig, "--experimental-json", "--brand-new", "7", stdin=b"do it")
    assert (code, events(out)[-2]["item"]["text"]) == (0, "done"), err
    assert "--brand-new 7 is not known here" in err
    assert events(out)[0] == {"type": "thread.started", "thread_id": rig.run_id}
    limits = rig.bodies(AgentSpawned)[0].limits
    told = (limits.sandbox, limits.approval, limits.reviewer)
    assert told == (ReadOnly(), "never", "nobody")
    assert not (rig.work / "made").exists()


async def test_a_session_goes_on_with_a_prompt_an_image_and_stdin_left_alone(rig):
    use(rig, {"text": "one"}, {"text": "two: {last_user}"}, {"text": "three"})
    assert (await run_exec(rig, "first", stdin=b"more"))[1] == "one\n"
    picture = rig.folder / "pixel.png"
    picture.write_bytes(PIXEL)
    code, out, err = await run_exec(
        rig, "resume", rig.run_id, "--image", str(picture), "second", stdin=b"not read"
    )
    assert (code, out.endswith("second\n"), "not read" in out) == (0, True, False), err
    posted = rig.bodies(InputPosted)
    assert posted[0].parts[0].text == "first\n\n<stdin>\nmore\n</stdin>"
    assert isinstance(posted[1].parts[0], ImageInput)
    assert (await run_exec(rig, "resume", "--last", "third"))[1] == "three\n"


async def test_a_failed_turn_says_error_then_turn_failed_and_the_exit_code_is_1(rig):
    use(rig, {"fault": {"status": 400, "message": "no such thing"}})
    code, out, _ = await run_exec(rig, "--json", "do it")
    kinds = [event["type"] for event in events(out)]
    assert (code, kinds[0], kinds[-2:]) == (1, "thread.started", ["error", "turn.failed"])
    assert "no such thing" in events(out)[-1]["error"]["message"]


async def test_the_key_of_the_sdks_is_taken_as_openais_and_reaches_no_command(rig):
    (rig.home / "config.toml").write_text('openai_base_url = "http://127.0.0.1:9"\n')
    key = "sk-none-0123456789abcdef"
    code, out, err = await run_exec(
        rig, "--json", "-c", "model_providers.x.request_max_retries=0", "do it",
        CODEX_API_KEY=key, CODEX_INTERNAL_ORIGINATOR_OVERRIDE="codex_sdk_ts",
    )  # fmt: skip
    assert code == 1
    assert "127.0.0.1" in out + err
    assert key not in out + err
    for file in rig.places.folder.rglob("*"):
        assert not file.is_file() or key.encode() not in file.read_bytes()


@pytest.mark.parametrize(
    ("words", "stdin", "why"),
    [
        ((), b"", "empty"),
        (("-",), b"  \n", "empty"),
        (("resume", "0123"), b"x", "there is no run yet"),
        (("resume",), b"x", "--last"),
        (("do", "it"), b"", "second word"),
        (("--output-schema", "none.json", "x"), b"", "none.json"),
        (("--sandbox", "none", "x"), b"", "--sandbox"),
        (("fork", "12"), b"", "swarm fork"),
        ((), b"x" * (5 << 20), "over 1 MiB"),
        ((), b"\xff\xfe\xfa", "text"),
    ],
)
async def test_what_cannot_run_is_said_in_one_line(rig, words, stdin, why):
    code, out, err = await run_exec(rig, *words, stdin=stdin)
    assert code in {1, 2}
    assert out == ""
    assert why in err
    assert "Traceback" not in err


async def test_outside_of_a_repository_it_runs_only_when_told(rig):
    use(rig, {"text": "done"})
    code, out, err = await run_exec(rig, "do it", in_repository=False)
    assert (code, out, "--skip-git-repo-check" in err) == (1, "", True)
    skip = "--skip-git-repo-check"
    assert (await run_exec(rig, skip, "do it", in_repository=False))[:2] == (0, "done\n")
