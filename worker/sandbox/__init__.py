"""Walls around commands: bubblewrap, or Landlock and seccomp, and what holds here."""
