"""What parts do in an agent's process; `tool_parts` is the list of them."""
