"""What every process shares: ids, errors, redaction, paths, safe opening, processes."""
