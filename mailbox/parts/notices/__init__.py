"""Notices: a person who is elsewhere is told something."""
