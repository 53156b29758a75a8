"""A saved request that is to go on: what the command line and the configuration put into it."""

import pytest

from swarm.mailbox.protocol.control import ChangeSettings
from swarm.mailbox.protocol.values.base import SCHEMA_VERSION
from swarm.supervisor.clients.cli.commands.codex_exec_command import _resumed
from swarm.supervisor.clients.cli.commands.resume_command import rebuild_request
from swarm.supervisor.request.run_request import NextInput, RunLifetime, RunRequest
from swarm.supervisor.request.saved_request import save_request
from swarm.supervisor.runs.paths import find_user_paths, make_private_folder, paths_of_run
from swarm.supervisor.runs.run_metadata import RunMetadata, write_metadata

RUN = "01a1fc24-7204-710f-b302-2343189d0946"
PROVIDER = "[model_providers.mine]\nname = 'Mine'\nbase_url = 'http://127.0.0.1:9/v1'\n"
GIVEN = {
    "prompt": "more",
    "config": (),
    "model": "m",
    "effort": None,
    "sandbox": None,
    "approval": None,
    "budget_tokens": 5,
    "budget_usd": None,
    "budget_requests": None,
    "deadline": None,
    "keep_open": False,
    "idle_timeout": None,
    "cd": None,
}


@pytest.fixture
def environment(tmp_path):
    (tmp_path / "config.toml").write_text(PROVIDER)
    return {"SWARM_HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path), "PATH": "/bin"}


@pytest.fixture
def here(tmp_path, environment):
    found = paths_of_run(find_user_paths(environment), RUN)
    make_private_folder(found.folder)
    lifetime = RunLifetime(keep_open=True, idle_timeout_s=9.0)
    save_request(found, RunRequest(cwd=str(tmp_path), prompt="p", lifetime=lifetime))
    about = RunMetadata(
        schema_version=SCHEMA_VERSION,
        run_id=RUN,
        title="t",
        task="-",
        cwd=str(tmp_path),
        pid=1,
        started=1.0,
        version="1",
    )
    write_metadata(found, about)
    return found


def test_a_resumed_run_has_its_words_its_providers_and_its_lifetime(here, environment):
    request = rebuild_request(here, environment, {**GIVEN})
    assert request.next_input == NextInput(
        prompt="more", settings=ChangeSettings(agent="/root", model="m")
    )
    assert [one.id for one in request.gateway.providers] == ["mine"]
    assert request.lifetime == RunLifetime(keep_open=True, idle_timeout_s=9.0)
    assert (request.budget.tokens, request.resumes, request.run_id) == (5, True, RUN)


def test_a_resumed_session_of_codex_exec_ends_with_its_answer(here, environment, tmp_path):
    picture = tmp_path / "a.png"
    picture.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(20))
    given = {**GIVEN, "image": (str(picture),), "output_schema": None}
    request = _resumed(here, environment, given, "more")
    assert (request.next_input.prompt, request.next_input.images) == ("more", (str(picture),))
    assert request.lifetime == RunLifetime()
