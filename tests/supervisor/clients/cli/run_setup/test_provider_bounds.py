"""The numbers of a provider have largest values: what is over them is lowered, and said once."""

import msgspec
import pytest

from swarm.roles.config.schema import Config
from swarm.supervisor.clients.cli.run_setup.provider_specs import build_providers

DAY_MS = 24 * 60 * 60 * 1000


@pytest.mark.parametrize(
    ("key", "given", "used"),
    [
        ("request_max_retries", 100, 100),
        ("request_max_retries", 101, 100),
        ("request_max_retries", 10**30, 100),
        ("stream_max_retries", 5000, 100),
        ("stream_idle_timeout_ms", DAY_MS, DAY_MS),
        ("stream_idle_timeout_ms", 10**20, DAY_MS),
    ],
)
def test_a_number_over_its_largest_value_is_lowered_and_said(key, given, used):
    table = {"base_url": "http://127.0.0.1:1/v1", key: given}
    config = msgspec.convert({"model_providers": {"mine": table}}, Config)
    warnings: list[str] = []
    ((spec,), _) = build_providers(config, warnings)
    assert getattr(spec, key) == used
    said = [f"model_providers.mine.{key}: {given} is over the largest value, {used}, which is used"]
    assert warnings == (said if given > used else [])
