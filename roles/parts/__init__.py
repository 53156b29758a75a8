"""How what people write about each part is checked; `config/part_keys.py` is the list of them."""
