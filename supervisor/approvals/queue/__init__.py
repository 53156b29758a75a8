"""The approvals of a run: asked, waited for, answered."""
