"""The console: fold the records of a run into a view, and render the view for people."""
