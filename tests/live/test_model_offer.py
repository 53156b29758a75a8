"""The capable embedded model is offered once, on a terminal where no other model could answer."""

import hashlib
import sys

import pytest
import trio

from support.questioned_terminal import answer_on_terminal
from swarm.supervisor.clients.cli.base.model_offer import CAPABLE, describe_offer
from swarm.supervisor.clients.cli.base.models_process import ModelLine

pytestmark = pytest.mark.live
LIMIT_S = 30
DATA = b"GGUF" * 1000
OFFER = """
import os
from swarm.supervisor.clients.cli.base.model_offer import offer_capable_model
from swarm.supervisor.clients.cli.run_setup.run_settings import load_config_here
offer_capable_model(lambda: load_config_here().config, os.environ)
"""


@pytest.fixture
def small_file(rig):
    """A file in place of the large one, which is fetched from this machine."""
    source = rig.folder / "source.gguf"
    source.write_bytes(DATA)
    (rig.home / "models.toml").write_text(
        f'[weights."{CAPABLE}"]\nfile = "c.gguf"\nsize_bytes = {len(DATA)}\ncan_call_tools = true\n'
        f'sha256 = "{hashlib.sha256(DATA).hexdigest()}"\nsources = ["{source.as_uri()}"]\n'
    )
    return rig.home / "cache" / "models" / "c.gguf"


async def offer(rig, key: bytes) -> bytes:
    with trio.fail_after(LIMIT_S):
        return await answer_on_terminal(
            rig, b"Fetch it now?", key, "-c", OFFER, program=sys.executable
        )


@pytest.mark.parametrize(("key", "fetched"), [(b"y\n", True), (b"\n", False)])
async def test_it_is_asked_once_and_fetched_only_on_a_yes(rig, small_file, key, fetched):
    seen = await offer(rig, key)
    assert b"cannot use tools" in seen
    assert (b"fetches it later" in seen) == (not fetched)
    assert small_file.exists() == fetched
    assert b"Fetch it" not in await offer(rig, b"")


@pytest.mark.parametrize("how", ["key", "provider", "model", "here", "script"])
async def test_nobody_is_asked_where_another_model_answers_or_nobody_looks(rig, small_file, how):
    match how:
        case "key":
            rig.environment["ANTHROPIC_API_KEY"] = "sk-not-a-key"
        case "provider" | "model":
            key = "model_provider" if how == "provider" else "model"
            (rig.home / "config.toml").write_text(f'{key} = "mine"\n')
        case "here":
            await offer(rig, b"y\n")
            next(rig.home.rglob("capable_model_offered")).unlink()
        case _:
            rig.environment["CI"] = "1"
    assert b"Fetch it" not in await offer(rig, b"")


def test_the_offer_says_size_licence_and_time():
    line = ModelLine(type="model", name=CAPABLE, size_bytes=1_117_320_768, licence="Apache-2.0")
    said = describe_offer(line)
    for words in ("1.1 GB", "Apache-2.0", "about 1 min at 100 Mbit/s", "about 7 min at 20"):
        assert words in said
