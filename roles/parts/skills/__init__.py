"""Skills: folders with a SKILL.md that a model reads when a task asks for it; files and rules."""
