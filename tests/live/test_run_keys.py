"""A key, wherever it comes from, is nowhere but in the request: files, output, processes."""

import json
import os
from contextlib import suppress
from pathlib import Path

import pytest
import trio

pytestmark = [pytest.mark.live, pytest.mark.usefixtures("started_anew")]
LIMIT_S = 45
KEY = "sentinel-7f3a9c1e5b2d8460-key"
NEXT = "sentinel-0a1b2c3d4e5f6071-next"
RING = """
from keyring.backend import KeyringBackend

class Ring(KeyringBackend):
    priority = 1

    def get_password(self, service, user):
        return open({path!r}).read() if (service, user) == ("box", "far") else None

    def set_password(self, service, user, password):
        raise NotImplementedError
"""


def use(id_, name, **given):
    return {"type": "tool_use", "id": id_, "name": name, "input": given}


def says(words):
    return {"type": "text", "text": words}


def configure(rig, server, source):
    told = f'[model_providers.far]\nbase_url = "{server.url}"\nwire_api = "messages"\n{source}\n'
    (rig.home / "config.toml").write_text(told)


def by_variable(rig, secret):
    rig.environment["FAR_KEY"] = KEY
    return 'env_key = "FAR_KEY"'


def by_header_variable(rig, secret):
    rig.environment["FAR_HEADER"] = KEY
    return 'env_http_headers = { x-api-key = "FAR_HEADER" }'


def by_file(rig, secret):
    return f'key_file = "{secret}"'


def by_command(rig, secret):
    return f'[model_providers.far.auth]\ncommand = "/bin/cat"\nargs = ["{secret}"]'


def by_keyring(rig, secret):
    folder = rig.folder / "ring"
    folder.mkdir()
    (folder / "testring.py").write_text(RING.format(path=str(secret)))
    rig.environment["PYTHONPATH"] = str(folder)
    rig.environment["PYTHON_KEYRING_BACKEND"] = "testring.Ring"
    return '[model_providers.far.keyring]\nservice = "box"'


def by_token(rig, secret):
    return f'experimental_bearer_token = "{KEY}"'


def by_header(rig, secret):
    return f'http_headers = {{ X-Api-Key = "{KEY}" }}'


SOURCES = [by_variable, by_header_variable, by_file, by_command, by_keyring, by_token, by_header]


@pytest.mark.parametrize("source", SOURCES)
async def test_a_key_is_seen_by_the_server_and_by_nobody_else(rig, model_server, source):
    secret = rig.folder / "secret"
    secret.write_text(KEY)
    secret.chmod(0o600)
    configure(rig, model_server, source(rig, secret))
    # The model has it read by a command, told in a text, and in an error.
    hunt = f"env; cat /proc/*/environ /proc/*/cmdline 2>/dev/null | tr '\\0' '\\n'; cat {secret}"
    model_server.add_messages(use("c1", "exec_command", cmd=hunt), stop="tool_use")
    seen = []

    def choose(request):
        seen.append(everywhere(rig))
        if len(seen) == 2:
            return model_server.reply(model_server.messages(says(f"it is {KEY}")))
        return None

    model_server.choose = choose
    with trio.fail_after(LIMIT_S):
        words = ("--provider", "far", "-m", "claude-opus-5-5", "-s", "danger-full-access")
        run = await rig.start("run", "-p", "do it", "--plain", *words)
        ended = await run.wait_end()
    assert ended.code == 0, ended.err
    first, last = model_server.requests
    assert KEY in (first.headers.get("x-api-key", "") + first.headers.get("authorization", ""))
    if source in {by_file, by_command, by_keyring}:
        # Without a sandbox the file lies open: the model reads it, the journal does not hold it.
        assert KEY in json.dumps(last.json)
    assert "it is [redacted]" in ended.out
    assert KEY not in ended.out + ended.err
    assert not any(seen), seen
    assert files_with_key(rig, but={secret, rig.home / "config.toml"}) == []
    with trio.fail_after(LIMIT_S):
        for words in (("doctor",), ("config", "list"), ("show", rig.run_id), ("log", rig.run_id)):
            told = await (await rig.start(*words)).wait_end()
            assert KEY not in told.out + told.err, words


def everywhere(rig) -> list[str]:
    """Processes of the run that show the key in their arguments or environment."""
    found = []
    for pid, title in rig.alive().items():
        for name in ("cmdline", "environ"):
            with suppress(OSError):
                if KEY.encode() in Path(f"/proc/{pid}/{name}").read_bytes() and not is_ours(pid):
                    found.append(f"{name} of {title}")
    return found


def is_ours(pid: int) -> bool:
    return pid == os.getpid()


def files_with_key(rig, *, but) -> list[Path]:
    roots = (rig.home, rig.work, rig.runtime)
    files = (path for root in roots for path in root.rglob("*") if path.is_file())
    return [path for path in files if path not in but and KEY.encode() in path.read_bytes()]


async def test_a_sandboxed_command_cannot_read_the_key_file(rig, model_server):
    secret = rig.work / "secret"  # where commands see all else
    secret.write_text(KEY)
    secret.chmod(0o600)
    configure(rig, model_server, by_file(rig, secret))
    model_server.add_messages(
        use("c1", "exec_command", cmd=f"cat {secret}; cat ./secret; echo end"), stop="tool_use"
    )
    model_server.add_messages(says("done"))
    with trio.fail_after(LIMIT_S):
        words = ("--provider", "far", "-m", "claude-opus-5-5", "-s", "workspace-write")
        ended = await (await rig.start("run", "-p", "do it", "--plain", *words)).wait_end()
    assert ended.code == 0, ended.err
    (told,) = rig.outputs()
    assert "end" in told
    assert KEY not in json.dumps(model_server.requests[1].json)


async def test_a_key_that_is_refused_is_fetched_again_and_the_run_goes_on(rig, model_server):
    secret = rig.folder / "secret"
    secret.write_text(KEY)
    secret.chmod(0o600)
    configure(rig, model_server, by_command(rig, secret))
    model_server.add_messages(use("c1", "exec_command", cmd="true"), stop="tool_use")
    model_server.add_error(401, {"type": "authentication_error", "message": f"expired: {KEY}"})
    model_server.add_messages(says(f"went on with {NEXT}"))

    def choose(request):
        if len(model_server.requests) == 2:
            secret.write_text(NEXT)
        return

    model_server.choose = choose
    with trio.fail_after(LIMIT_S):
        words = ("--provider", "far", "-m", "claude-opus-5-5", "-s", "danger-full-access")
        ended = await (await rig.start("run", "-p", "do it", "--plain", *words)).wait_end()
    assert ended.code == 0, ended.err
    assert "went on with [redacted]" in ended.out
    keys = [seen.headers["x-api-key"] for seen in model_server.requests]
    assert keys == [KEY, KEY, NEXT]
    assert files_with_key(rig, but={secret}) == []


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ('key_file = "missing"', "key_file"),
        ('[model_providers.far.auth]\ncommand = "/bin/false"', "exit code 1"),
        ('[model_providers.far.auth]\ncommand = "no-such-program"', "no-such-program"),
        (
            '[model_providers.far.auth]\ncommand = "/bin/sleep"\nargs = ["60"]\ntimeout_ms = 200',
            "0.2 s",
        ),
        ('[model_providers.far.keyring]\nservice = "nothing"', "keyring"),
    ],
)
async def test_a_key_that_cannot_be_had_ends_the_run_before_any_request(
    rig, model_server, source, words
):
    rig.environment["PYTHON_KEYRING_BACKEND"] = "keyring.backends.null.Keyring"
    configure(rig, model_server, source)
    with trio.fail_after(LIMIT_S):
        ended = await (await rig.run("far", "-m", "m")).wait_end()
    assert ended.code == 5, ended.err
    assert words in ended.err
    assert model_server.requests == []
    assert rig.alive() == {}


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (
            'env_key = "A"\n[model_providers.far.auth]\ncommand = "x"',
            "provider auth cannot be combined with env_key",
        ),
        ('[model_providers.far.auth]\ncommand = " "', "auth.command must not be empty"),
        ('key_file = "a"\nexperimental_bearer_token = "b"', "cannot be combined"),
        ("[model_providers.far.keyring]\n", "must not be empty"),
        ('[model_providers.far.auth]\ncommand = "x"\ntimeout_ms = 0', "timeout_ms"),
    ],
)
async def test_two_sources_or_a_broken_one_are_told_with_file_and_line(
    rig, model_server, source, words
):
    configure(rig, model_server, source)
    with trio.fail_after(LIMIT_S):
        ended = await (await rig.run("far", "-m", "m")).wait_end()
    assert ended.code == 2, ended.err
    assert words in ended.err
    assert "config.toml, line" in ended.err
