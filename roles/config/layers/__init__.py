"""The layers of a configuration: found, checked, merged, limited by requirements."""
