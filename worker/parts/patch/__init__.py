"""apply_patch: parse a patch, locate its chunks, plan all changes, then write them."""
