"""Notices changes of skills while a run is on, and tells its agents."""
