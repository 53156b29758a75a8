"""When to compact a history: the model's window and the configured limits. Pure."""

import msgspec

from swarm.mailbox.protocol.sampling import ModelInfo
from swarm.mailbox.protocol.spec import ContextRules

FULL_PERCENT = 90  # of the window: a fuller history is compacted


def with_configured_window(model: ModelInfo, rules: ContextRules) -> ModelInfo:
    """Return the model with the configured context window, if one is configured."""
    if rules.window_tokens is None:
        return model
    return msgspec.structs.replace(model, context_window=rules.window_tokens)


def usable_window(model: ModelInfo) -> int | None:
    """Return the tokens that a request may hold; None if the window is unknown."""
    tokens = model.context_window * model.effective_context_percent // 100
    return tokens if tokens > 0 else None


def compaction_limit(model: ModelInfo, rules: ContextRules) -> int | None:
    """Return the tokens from which a history is compacted; None: never automatically.

    The smaller of the configured limit (else the catalogue's) and 90 % of the window.

    Source: Codex `model_auto_compact_token_limit`.
    """
    wanted = rules.compact_tokens or model.auto_compact_tokens
    full = model.context_window * FULL_PERCENT // 100
    bounds = [bound for bound in (wanted, full) if bound is not None and bound > 0]
    return min(bounds, default=None)
