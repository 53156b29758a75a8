"""Configuration: layers of TOML, merged into one typed value that knows where each part is from."""
