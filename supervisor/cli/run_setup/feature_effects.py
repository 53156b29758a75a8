"""Applies switched-off features to a run request. A feature switch only removes abilities."""

import msgspec

from swarm.mailbox.protocol.limits import Granular
from swarm.roles.config.features import FeatureSettings

from ...run_request import RunRequest

REVIEWER_OFF_WARNING = "features.guardian_approval is off: what would ask the reviewer is refused"


def apply_features(
    request: RunRequest, switched: FeatureSettings, warnings: list[str]
) -> RunRequest:
    """The request without the abilities that are switched off."""
    changes: dict[str, object] = {"shell_snapshot": switched.is_enabled("shell_snapshot")}
    if not switched.is_enabled("multi_agent"):
        changes["max_depth"] = 0
    if not switched.is_enabled("guardian_approval") and request.reviewer == "guardian":
        warnings.append(REVIEWER_OFF_WARNING)
        changes["reviewer"] = "nobody"
    if not switched.is_enabled("request_permissions_tool") and request.approval == "on-request":
        asks = request.granular or Granular(request_permissions=True, skill_approval=True)
        changes["granular"] = msgspec.structs.replace(asks, request_permissions=False)
    return msgspec.structs.replace(request, **changes)
