"""Bedrock and Vertex as a person configures them: requests are signed or carry a fresh token, what
grants access stays in the gateway, and a sandboxed agent can neither see nor choose it.
"""

import json
import shlex
import sys

import pytest
import trio

from support.servers.cloud_access import AWS, GOOGLE_TOKEN, CloudAccess, service_account
from support.servers.odd_server import OddServer, load_profiles

pytestmark = pytest.mark.live
LIMIT_S = 60
PROFILES = {profile.name: profile for profile in load_profiles()}
LAST = {name: value for name, value in AWS.items() if name != "AWS_SESSION_TOKEN"}


class Server(OddServer):
    """Has one command run, then answers."""

    command = "true"

    def _answer(self, calls):
        return super()._answer(
            (("exec_command", {"cmd": self.command}),) if self.answers < 2 else ()
        )


def configure(rig, server, name, table):
    """A provider `cloud` at this server, which behaves as the profile of that name."""
    profile = PROFILES[name]
    server.choose = odd = Server(profile, server)
    rig.home.joinpath("config.toml").write_text(
        f'[model_providers.cloud]\nbase_url = "{server.url}"\nwire_api = "{profile.wire}"\n'
        f"request_max_retries = 0\nstream_max_retries = 0\n{table}\n"
    )
    return odd


def bedrock(rig, server, more=""):
    table = f'[model_providers.cloud.aws]\nregion = "us-east-1"\n{more}'
    return configure(rig, server, "bedrock compatible", table)


async def run(rig):
    with trio.fail_after(LIMIT_S):
        return await (await rig.run("cloud", "-m", "m", sandbox="workspace-write")).wait_end()


def denied(odd):
    """What the cloud said to requests that did not count as the person's."""
    return [one for one in odd.refusals if "Signature" in one or "Token" in one or "auth" in one]


def written(rig):
    """All that a run keeps."""
    files = [path for path in rig.places.folder.rglob("*") if path.is_file()]
    return b"".join(path.read_bytes() for path in files)


async def test_requests_to_bedrock_are_signed_with_keys_of_the_environment(rig, model_server):
    odd = bedrock(rig, model_server)
    odd.command = "env > seen; cat /proc/*/environ >> seen; true"
    rig.environment |= AWS
    ended = await run(rig)
    assert (ended.code, ended.out) == (0, "Done.\n"), ended.err
    assert denied(odd) == []
    secret, token = AWS["AWS_SECRET_ACCESS_KEY"], AWS["AWS_SESSION_TOKEN"]
    seen = (rig.work / "seen").read_text(errors="replace")
    for hidden in (secret, token, AWS["AWS_ACCESS_KEY_ID"]):
        assert hidden not in seen + ended.err
        assert hidden.encode() not in written(rig)
        assert not [one for one in odd.accepted if hidden in json.dumps(one)]
    sent = model_server.requests[0].headers
    assert secret not in str(sent)
    assert sent["x-amz-security-token"] == token


async def test_a_profile_and_its_program_give_the_keys_and_no_command_sees_the_file(
    rig, model_server
):
    odd = bedrock(rig, model_server, 'profile = "work"')
    odd.command = "cat ~/.aws/config > seen; ls ~/.aws >> seen; true"
    odd.access = CloudAccess(odd.profile.access, LAST)
    found = {
        "Version": 1,
        "AccessKeyId": LAST["AWS_ACCESS_KEY_ID"],
        "SecretAccessKey": LAST["AWS_SECRET_ACCESS_KEY"],
    }
    program = rig.folder / "program.py"
    program.write_text(f"print({json.dumps(json.dumps(found))})")
    aws = rig.home / ".aws"
    aws.mkdir()
    line = shlex.join([sys.executable, str(program)])
    aws.joinpath("config").write_text(f"[profile work]\ncredential_process = {line}\n")
    ended = await run(rig)
    assert (ended.code, ended.out) == (0, "Done.\n"), ended.err
    assert denied(odd) == []
    assert "credential_process" not in (rig.work / "seen").read_text()


async def test_a_wrong_secret_is_asked_for_once_more_and_ends_the_run(rig, model_server):
    odd = bedrock(rig, model_server)
    rig.environment |= AWS | {"AWS_SECRET_ACCESS_KEY": "another-secret-of-nobody-0123456789"}
    ended = await run(rig)
    assert ended.code == 5
    assert denied(odd) == ["SignatureDoesNotMatch"]
    assert "another-secret" not in ended.err
    assert "model_providers.cloud.aws" in rig.completed.message


async def test_no_credentials_are_one_sentence_that_says_what_to_type(rig, model_server):
    bedrock(rig, model_server)
    rig.environment["AWS_EC2_METADATA_DISABLED"] = "true"
    ended = await run(rig)
    assert ended.code == 5
    assert "no AWS credentials were found: set AWS_ACCESS_KEY_ID" in ended.err
    assert model_server.requests == []


async def test_what_agents_may_write_names_no_program_that_the_gateway_runs(rig, model_server):
    bedrock(rig, model_server)
    config = rig.work / "aws-config"
    config.write_text(f"[default]\ncredential_process = /bin/touch {rig.work}/ran\n")
    rig.environment["AWS_CONFIG_FILE"] = str(config)
    ended = await run(rig)
    assert ended.code == 5
    assert f"{config} lies in {rig.work}, where agents may write" in ended.err
    assert not (rig.work / "ran").exists()


@pytest.mark.parametrize("place", ["named in the table", "where Google looks", "a variable"])
async def test_vertex_gets_a_fresh_token_of_a_service_account(rig, model_server, place):
    file = rig.home / ".config/gcloud/application_default_credentials.json"
    more = ""
    if place != "where Google looks":
        file = rig.folder / "account.json"
    if place == "named in the table":
        more = f'credentials_file = "{file}"'
    if place == "a variable":
        rig.environment["GOOGLE_APPLICATION_CREDENTIALS"] = str(file)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(service_account(model_server.url))
    table = f"[model_providers.cloud.google]\n{more}"
    odd = configure(rig, model_server, "gemini on vertex", table)
    odd.command = f"cat {file} > seen; true"
    ended = await run(rig)
    assert (ended.code, ended.out) == (0, "Done.\n"), ended.err
    assert denied(odd) == []
    assert len(odd.access.asked) == 1
    assert "PRIVATE KEY" not in (rig.work / "seen").read_text()
    assert GOOGLE_TOKEN.encode() not in written(rig)


async def test_a_token_that_is_refused_is_got_anew_and_the_request_is_sent_again(rig, model_server):
    file = rig.folder / "account.json"
    file.write_text(service_account(model_server.url))
    table = f'[model_providers.cloud.google]\ncredentials_file = "{file}"'
    odd = configure(rig, model_server, "gemini on vertex", table)
    problem, odd.access.problem = odd.access.problem, None

    def revoked(seen):
        odd.access.problem = problem
        odd.access.tokens = {"ya29.the-next-token-0123456789"}
        return "Request had invalid authentication credentials."

    odd.access.problem = revoked
    ended = await run(rig)
    assert (ended.code, ended.out) == (0, "Done.\n"), ended.err
    assert len(odd.access.asked) == 2
