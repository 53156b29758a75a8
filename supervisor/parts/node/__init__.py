"""A node: runs agents of a run on another machine than the supervisor's."""
