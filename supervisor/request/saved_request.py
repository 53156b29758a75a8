"""What `resume` and `fork` need of a run's request, in its folder.

Apart from `run_metadata`: who only lists runs loads nothing of what a request is made of.
"""

import msgspec

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.base.redact import Redactor
from swarm.mailbox.parts.part_messages import FormerPartSettings

from ..runs.former_request import from_former
from ..runs.paths import RunPaths
from ..runs.run_metadata import write_run_file
from .run_request import NextInput, RunRequest


def save_request(run_paths: RunPaths, request: RunRequest) -> None:
    """Save what `resume` needs. Keys, environment, providers and MCP servers are never written.

    The prompt is redacted as in the journal: it may contain a key as well.
    """
    kept = msgspec.structs.replace(
        request,
        prompt=Redactor(request.secrets).redact(request.prompt),
        keys={},
        mcp=msgspec.structs.replace(request.mcp, servers=()),
        mcp_credentials={},
        environment={},
        gateway=msgspec.structs.replace(request.gateway, providers=()),
        run_id=None,
        next_input=NextInput(),
    )
    write_run_file(run_paths.folder / "request.json", msgspec.json.encode(kept))


def load_request(run_paths: RunPaths) -> RunRequest:
    """The request as saved, without keys, environment and providers: the caller fills them in."""
    path = run_paths.folder / "request.json"
    try:
        data = path.read_bytes()
        saved = msgspec.json.decode(data, type=dict[str, object])
        request = msgspec.convert(from_former(saved), RunRequest)
        former = msgspec.convert(saved, FormerPartSettings)
        return msgspec.structs.replace(request, parts=former.on(request.parts))
    except (OSError, msgspec.DecodeError) as error:
        raise UsageError(f"this run cannot be resumed: {path} cannot be read: {error}") from error
