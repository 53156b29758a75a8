"""Capabilities beside the kernel, a folder each; `run_parts` is the list of their services."""
