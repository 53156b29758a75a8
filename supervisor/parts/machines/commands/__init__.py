"""The commands of machines."""
