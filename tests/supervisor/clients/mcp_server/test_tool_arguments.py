"""Arguments of tools: the schemas that clients see, and what is refused."""

import jsonschema_rs
import pytest

from swarm.mailbox.base.errors import UsageError
from swarm.supervisor.clients.mcp_server.codex_tools import codex_options
from swarm.supervisor.clients.mcp_server.http_address import check_token, parse_address
from swarm.supervisor.clients.mcp_server.tool_arguments import (
    CodexToolArguments,
    RunToolArguments,
    read_arguments,
)
from swarm.supervisor.clients.mcp_server.tool_list import CODEX_TOOLS, SWARM_TOOLS


@pytest.mark.parametrize("tool", [*SWARM_TOOLS, *CODEX_TOOLS], ids=lambda tool: tool.name)
def test_every_schema_is_one_of_an_object(tool):
    for schema in (tool.input_schema, tool.output_schema):
        jsonschema_rs.validator_for(schema)
        assert schema["type"] == "object"
    assert tool.input_schema["additionalProperties"] is False
    assert tool.description


def test_all_schemas_of_swarms_own_tools_are_small():
    assert sum(len(tool.model_dump_json(exclude_none=True)) for tool in SWARM_TOOLS) < 16_000


def test_codex_names_its_arguments_as_codex_does():
    (codex, reply) = CODEX_TOOLS
    assert set(codex.input_schema["properties"]) == {
        "prompt", "model", "profile", "cwd", "approval-policy", "sandbox", "config",
        "base-instructions", "developer-instructions", "compact-prompt",
    }  # fmt: skip
    assert set(reply.input_schema["properties"]) == {"prompt", "threadId", "conversationId"}
    assert reply.output_schema["required"] == ["threadId", "content"]


@pytest.mark.parametrize(
    "given",
    [{}, {"task": 1}, {"task": "x", "sandbox": "none"}, {"task": None},
     {"task": "x", "budget": {"tokens": 0}}, {"task": "x", "unknown": 1}, [], "x",
     {"task": "x", "role": "r" * 201}],
)  # fmt: skip
def test_arguments_that_do_not_fit_are_refused_in_words(given):
    with pytest.raises(UsageError, match="do not fit"):
        read_arguments(given, RunToolArguments)


@pytest.mark.parametrize(
    "given",
    [{"profile": "loose"}, {"config": {"sandbox_mode": "danger-full-access"}},
     {"config": {"mcp_servers.x.command": "sh"}}, {"config": {"notify": ["sh"]}},
     {"config": {"model": 3}}, {"config": {"model": "a\nb"}},
     {"config": {"model_providers.openai.base_url": "http://evil.example"}}],
)  # fmt: skip
def test_codex_callers_set_no_key_that_gives_rights(given):
    arguments = read_arguments({"prompt": "x", **given}, CodexToolArguments)
    with pytest.raises(UsageError):
        codex_options(arguments)


def test_codex_texts_become_keys_of_the_configuration():
    given = {"prompt": "x", "base-instructions": 'a"', "developer-instructions": "b",
             "config": {"model_reasoning_effort": "low"}}  # fmt: skip
    wanted = codex_options(read_arguments(given, CodexToolArguments))
    assert dict(wanted.config) == {
        "model_reasoning_effort": '"low"', "developer_instructions": '"a\\"\\n\\nb"'
    }  # fmt: skip


def test_an_address_of_other_machines_must_be_meant():
    assert parse_address("127.0.0.1:0", anywhere=False).port == 0
    assert parse_address("[::1]:80", anywhere=False).name == "[::1]:80"
    assert parse_address("0.0.0.0:80", anywhere=True).host == "0.0.0.0"
    for wrong in ("80", "x:y", "127.0.0.1:99999", "0.0.0.0:80", "example.org:80", "127.0.0.1:٣"):
        with pytest.raises(UsageError):
            parse_address(wrong, anywhere=False)


@pytest.mark.parametrize("token", ["", "short", "x" * 19, "ü" * 30, "a b\n" * 10])
def test_a_token_that_is_weak_or_no_header_is_refused(token):
    with pytest.raises(UsageError):
        check_token(token)
