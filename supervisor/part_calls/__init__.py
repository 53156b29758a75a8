"""Which part takes what: the list of their services, asked by the kernel."""
