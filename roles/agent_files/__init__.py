"""Agent files: roles written as Markdown, in the form that other agents read too."""
