"""What is read below every other folder of the roles: links, YAML tables, guidance."""
