"""The files of a plugin and of a marketplace, as values."""
