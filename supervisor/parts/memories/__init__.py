"""Memories: what runs learned, kept for later ones. Off unless a person asked for it."""
