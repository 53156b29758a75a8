"""The error that tools raise: a text for the model, never for the user."""

from swarm.mailbox.errors import SwarmError


class ToolFailed(SwarmError):
    """The call failed before or while it ran; the text is its output."""
