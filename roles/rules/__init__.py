"""Rule files about commands and hosts: reading, matching, and adding approved rules."""
