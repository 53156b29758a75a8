"""People's requests at the control socket, and who may make them."""
