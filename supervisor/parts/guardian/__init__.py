"""The guardian: reviewer processes that judge actions in place of a person."""
