"""What the configuration says of models' memory reaches the agents, and nonsense is refused."""

import pytest

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.protocol.spec import ContextRules, Inherited, RoleBrief
from swarm.mailbox.protocol.values.limits import Limits
from swarm.roles.config.schema import Config
from swarm.supervisor.agents.agent_record import AgentPlan
from swarm.supervisor.agents.life.agent_start import inherited_by
from swarm.supervisor.clients.cli.run_setup.request_parts import context_rules


def test_each_key_has_its_place(tmp_path):
    prompt = tmp_path / "p.md"
    prompt.write_text(" Sum it up. \n")
    config = Config(
        model_context_window=9_000,
        model_auto_compact_token_limit=5_000,
        experimental_compact_prompt_file=str(prompt),
        include_environment_context=False,
        project_doc_max_bytes=10,
    )
    rules = context_rules(config, tmp_path)
    assert rules == ContextRules(
        compact_tokens=5_000, window_tokens=9_000, compact_prompt="Sum it up.", environment=False,
        guidance_bytes=10, guidance_home=str(tmp_path),
    )  # fmt: skip


@pytest.mark.parametrize(("slotless", "limit"), [(False, 10), (True, 0)])
def test_a_reviewer_inherits_nothing_of_the_project(slotless, limit):
    plan = AgentPlan(
        path="/a", agent_id="a", role=RoleBrief(), limits=Limits(), cwd="/", slotless=slotless
    )
    run = Inherited(
        user_instructions="Be quick.", allow_commit=True, context=ContextRules(guidance_bytes=10)
    )
    got = inherited_by(plan, run)
    assert (got == run) is not slotless
    assert (got.allow_commit, bool(got.user_instructions)) == (not slotless, not slotless)
    assert got.context.guidance_bytes == limit


def test_the_prompt_itself_goes_before_the_file(tmp_path):
    config = Config(compact_prompt="own", experimental_compact_prompt_file="/nowhere")
    assert context_rules(config, tmp_path).compact_prompt == "own"


@pytest.mark.parametrize("data", [None, b"  ", b"\xff", b"x" * (65 << 10)])
def test_a_prompt_file_that_cannot_be_used_is_an_error_that_names_it(tmp_path, data):
    prompt = tmp_path / "p.md"
    if data is not None:
        prompt.write_bytes(data)
    with pytest.raises(UsageError, match=r"experimental_compact_prompt_file.*p\.md"):
        context_rules(Config(experimental_compact_prompt_file=str(prompt)), tmp_path)


@pytest.mark.parametrize("key", ["model_context_window", "model_auto_compact_token_limit"])
def test_a_window_of_nothing_is_refused(tmp_path, key):
    with pytest.raises(UsageError, match=key):
        context_rules(Config(**{key: 0}), tmp_path)
