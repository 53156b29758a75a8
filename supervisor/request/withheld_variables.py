"""Variables of a person's terminal that no command of the run may see. No I/O."""

from swarm.mailbox.base.proxy_environment import PROXY_VARIABLES

from .run_request import RunRequest


def withheld_variables(request: RunRequest) -> set[str]:
    """Their names: keys, and a proxy with its password."""
    withheld = set(request.keys).union(*(one.secret_variables for one in request.gateway.providers))
    if request.goes_upstream:
        withheld.update(*((name, name.lower()) for name in PROXY_VARIABLES))
    return withheld
