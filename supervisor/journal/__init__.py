"""The journal: JSON lines, one writer thread, readers, folds for resuming."""
