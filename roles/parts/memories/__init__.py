"""The `[memories]` table."""
