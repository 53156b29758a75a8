"""Plugins as they come and go: fetching, checking, installing, updating, removing. Runs nothing."""
