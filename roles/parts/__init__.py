"""How what people write about each part is read; `part_settings` is the list of them."""
