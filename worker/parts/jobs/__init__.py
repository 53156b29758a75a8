"""The tools of jobs."""
