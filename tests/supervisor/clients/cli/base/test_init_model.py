"""Whether a model shall look at the project: one that was named does, also an embedded one."""

import pytest

from swarm.roles.config.schema import Config
from swarm.supervisor.clients.cli.base.agents_draft_run import DraftModel, is_model_configured


@pytest.mark.parametrize(
    ("wanted", "config", "looks"),
    [
        (DraftModel(model="qwen", provider="local"), Config(), True),
        (DraftModel(provider="local"), Config(), False),
        (DraftModel(provider="openai"), Config(), True),
        (DraftModel(), Config(model_provider="local"), False),
        (DraftModel(), Config(model_provider="local", model="qwen"), True),
    ],
)
def test_a_model_that_was_named_is_asked(wanted, config, looks):
    assert is_model_configured(wanted, config, {}) is looks
