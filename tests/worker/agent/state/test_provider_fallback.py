"""Which failures make an agent leave its provider, and which entry of its list is next."""

import msgspec
import pytest

from support.nested_fields import with_fields
from swarm.mailbox.base.model_reference import ModelReference
from swarm.mailbox.protocol.sampling import ModelInfo, SampleFailed
from swarm.mailbox.protocol.settings import ModelSettings
from swarm.mailbox.protocol.spec import AgentSpec, GatewayAccess, RoleBrief
from swarm.mailbox.protocol.values.limits import Limits
from swarm.worker.agent.state.provider_fallback import (
    is_provider_failure,
    next_provider,
    retries_here,
    with_fallbacks_tried,
)

MODEL = ModelInfo(slug="m", provider="a", wire="chat")
SPEC = AgentSpec(
    run_id="r",
    agent_id="1",
    path="/root",
    epoch=1,
    role=RoleBrief(),
    limits=Limits(),
    cwd="/",
    endpoint="",
    identity=b"",
    secret=b"",
    gateway=GatewayAccess(endpoint="", token=b""),
    tmp_dir="",
    environment={},
    model_settings=ModelSettings(fallback=("a:m", "b:n", "c")),
)


def failed(kind, status=None, request_id=1):
    return SampleFailed(request_id=request_id, kind=kind, message="no", http_status=status)


@pytest.mark.parametrize(
    "kind",
    [
        "usage_limit_exceeded", "unauthorized", "missing_key", "overloaded", "connection_failed",
        "stream_disconnected", "idle_timeout", "bad_response", "other", "no_provider",
    ],
)  # fmt: skip
def test_what_a_provider_cannot_do_another_one_may(kind):
    assert is_provider_failure(failed(kind))


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        ("context_window_exceeded", None), ("invalid_image", None), ("refused_budget", None),
        ("incomplete", None), ("internal", None), ("repeating", None), ("bad_request", 400),
        ("bad_request", 413), ("bad_request", None),
    ],
)  # fmt: skip
def test_what_every_provider_would_refuse_stays_a_failure(kind, status):
    assert not is_provider_failure(failed(kind, status))
    assert next_provider(SPEC, MODEL, failed(kind, status)) is None


@pytest.mark.parametrize("status", [301, 402, 404])
def test_a_refusal_for_the_address_the_payment_or_the_model_is_this_providers(status):
    assert is_provider_failure(failed("bad_request", status))


def test_a_gateway_that_was_started_again_is_no_failure_of_the_provider():
    assert not is_provider_failure(failed("connection_failed", request_id=0))
    assert is_provider_failure(failed("no_provider", request_id=0))


def test_the_list_is_taken_in_order_and_only_once():
    spec = SPEC
    found = []
    model: ModelInfo | None = MODEL
    while (chosen := next_provider(spec, model, failed("other"))) is not None:
        found.append(str(chosen.reference))
        spec = with_fields(
            spec,
            provider=chosen.reference.provider,
            model=chosen.reference.model,
            fallbacks_taken=chosen.taken,
        )
        model = None
    assert found == ["b:n", "c"]  # `a:m` is what failed
    assert "no fallback is left (its list: a:m, b:n, c)" in with_fallbacks_tried(
        spec, failed("other")
    )


def test_an_agent_does_not_wait_for_a_server_that_is_gone_if_it_has_another():
    gone = failed("connection_failed")
    assert retries_here(SPEC, MODEL, gone) == 0
    assert retries_here(SPEC, MODEL, failed("stream_disconnected")) == MODEL.stream_max_retries
    last = msgspec.structs.replace(SPEC, fallbacks_taken=3)
    assert retries_here(last, MODEL, gone) == MODEL.stream_max_retries
    assert next_provider(last, MODEL, gone) is None


def test_a_provider_without_a_model_is_not_the_same_as_another_one():
    spec = with_fields(SPEC, fallback=("a", "a:other"))
    chosen = next_provider(spec, MODEL, failed("other"))
    assert chosen is not None
    assert chosen.reference == ModelReference(provider="a", model="other")
