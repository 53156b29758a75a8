"""Configuration: layers of TOML, merged into one typed value that records each value's origin."""
