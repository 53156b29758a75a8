"""Which reasoning effort a request names, of those that its model knows. Pure."""

from swarm.mailbox.protocol.sampling import ModelInfo
from swarm.mailbox.protocol.settings import EFFORTS


def nearest_effort(wanted: str | None, known: tuple[str, ...]) -> str | None:
    """The wanted effort, else the next lower one that the model supports, else its lowest."""
    if wanted is None or wanted not in EFFORTS or not known:
        return None
    ranked = sorted((one for one in known if one in EFFORTS), key=EFFORTS.index)
    lower = [one for one in ranked if EFFORTS.index(one) <= EFFORTS.index(wanted)]
    chosen = lower[-1:] or ranked[:1]
    return chosen[0] if chosen else None


def requested_effort(model: ModelInfo, effort: str | None) -> str | None:
    """The effort for a wire that names it; as it was asked for if the model's are not known."""
    wanted = effort or model.default_effort
    return nearest_effort(wanted, model.efforts) or wanted
