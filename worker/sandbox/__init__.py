"""Sandboxes for commands: bubblewrap, or Landlock and seccomp; what this machine can enforce."""
