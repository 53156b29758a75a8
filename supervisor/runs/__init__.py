"""A run's folder on disk: metadata, paths, results, export, fork."""
