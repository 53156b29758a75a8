"""What a run is made from, and what is looked at before it begins."""
