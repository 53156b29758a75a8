"""Rule files about commands and hosts: reading, matching, and adding what a person approved."""
