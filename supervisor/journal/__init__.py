"""The journal: JSON lines, one writer thread, an index for finding, folds for resuming."""
