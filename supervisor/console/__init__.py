"""What a person sees of a run: a fold over its records, and pictures of the fold."""
