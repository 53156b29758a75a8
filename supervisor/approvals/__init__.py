"""Approvals: one queue for all agents of a run, grants, and the choice of who decides."""
