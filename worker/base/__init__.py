"""What the processes of the worker share: the spec of now, reports, measures of text,
the lifeline."""
