"""Which agents of a run work in copies of the project, in words: the run's first line."""

from swarm.mailbox.protocol.values.limits import ReadOnly

from .run_request import RunRequest


def describe_isolation(request: RunRequest) -> str:
    """The first line of a run: what of it works in copies; "" if nothing does, or may."""
    match request.copies.isolation:
        case "run" if isinstance(request.sandbox, ReadOnly):
            return "this run may only read, so it needs no copy of the project"
        case "run":
            return "the whole run works in a copy: the project stays as it is until a merge"
        case "copy":
            return (
                "agents that the root starts work in copies, and the root in the project itself "
                "(--isolate puts the whole run into a copy)"
            )
        case "auto":
            return "agents that write beside others work in copies, and all others in the project"
        case _:
            return ""
