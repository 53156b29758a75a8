"""apply_patch: read a patch, find its places, plan the change, write it. Plan first, then write."""
