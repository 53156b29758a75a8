"""The view of an agent that works in a copy of the project: overlays in a mount namespace."""
