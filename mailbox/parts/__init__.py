"""What of each part travels between processes; `part_messages` is the list of them."""
