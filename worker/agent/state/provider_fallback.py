"""When an agent leaves its provider for the next of its fallback list, and for which. No I/O."""

from swarm.mailbox.base.model_reference import ModelReference, split_reference
from swarm.mailbox.protocol.sampling import ModelInfo, SampleErrorKind, SampleFailed
from swarm.mailbox.protocol.spec import AgentSpec
from swarm.mailbox.protocol.values.base import Value

# Failures of this provider; another one may serve the same request. Not among them: cancelled
# requests, budgets, requests that no provider would take, and faults of swarm itself.
_OF_THE_PROVIDER: frozenset[SampleErrorKind] = frozenset({
    "usage_limit_exceeded", "unauthorized", "missing_key", "no_provider", "overloaded",
    "connection_failed", "stream_disconnected", "idle_timeout", "bad_response", "other",
})  # fmt: skip
# `bad_request` of this provider alone: its address, its payment, its list of models
_OWN_STATUSES = frozenset({301, 302, 303, 307, 308, 402, 404, 405, 410})


class NextProvider(Value):
    """The entry of the list that is used from now on; `taken` counts it and those before it."""

    reference: ModelReference
    taken: int


def is_provider_failure(failed: SampleFailed) -> bool:
    """True if another provider may do better. `failed` is final: nothing tries it again here."""
    if failed.kind == "bad_request":
        return failed.http_status in _OWN_STATUSES
    is_gateway_gone = failed.request_id == 0 and failed.kind != "no_provider"
    return failed.kind in _OF_THE_PROVIDER and not is_gateway_gone


def next_provider(
    spec: AgentSpec, model: ModelInfo | None, failed: SampleFailed
) -> NextProvider | None:
    """Where the agent's requests go after this failure; None: the failure stands.

    Args:
        model: What the agent used; None if its conversation could not be opened.
    """
    if not is_provider_failure(failed):
        return None
    provider = model.provider if model is not None else spec.model_settings.provider
    slug = model.slug if model is not None else spec.model_settings.model
    for taken, entry in enumerate(
        spec.model_settings.fallback[spec.fallbacks_taken :], spec.fallbacks_taken + 1
    ):
        reference = split_reference(entry)
        is_same = reference.provider == provider and reference.model in {None, slug}
        if not is_same:
            return NextProvider(reference=reference, taken=taken)
    return None


def retries_here(spec: AgentSpec, model: ModelInfo, failed: SampleFailed) -> int:
    """How often the agent asks this provider again.

    Not at all where the gateway could not connect and another provider is named: the gateway has
    tried as often as the provider's settings say.
    """
    leaves = failed.kind == "connection_failed" and next_provider(spec, model, failed) is not None
    return 0 if leaves else model.stream_max_retries


def with_fallbacks_tried(spec: AgentSpec, failed: SampleFailed) -> str:
    """The failure's text; it says so if no entry of the list is left."""
    if not spec.model_settings.fallback or not is_provider_failure(failed):
        return failed.message
    tried = ", ".join(spec.model_settings.fallback)
    return f"{failed.message}; no fallback is left (its list: {tried})"
