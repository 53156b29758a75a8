"""Questions that need a yes: one queue for the tree, grants, and who answers."""
