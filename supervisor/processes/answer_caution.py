"""Why a model's answers are not to be trusted: it is tiny, small, or unknown. Pure."""

from swarm.mailbox.protocol.sampling import ModelInfo

CANNOT_USE_TOOLS = "cannot use tools"
_BETTER = "docs/providers.md says how to choose a better one"


def answer_caution(model: ModelInfo) -> str:
    """What to say beside an answer of this model; "" for a model that is known to be capable."""
    if model.wire == "scripted":
        return ""  # a person has written its answers
    if model.wire == "local" and not model.can_call_tools:
        return (
            f"{model.slug} is a tiny model that {CANNOT_USE_TOOLS} and is often wrong: do not "
            f"trust this answer. {_BETTER}"
        )
    if model.is_small:
        return (
            f"{model.slug} is a small model and is often wrong, also where it sounds sure: check "
            f"this answer, and what it changed. {_BETTER}"
        )
    if not model.known:
        return (
            f"{model.slug} is not in the catalogue of models, so nothing is known of how well it "
            f"works: check this answer. `swarm models probe {model.slug}` tries what it can do"
        )
    return ""
