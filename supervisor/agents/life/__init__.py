"""How agents are started, watched, restarted, resumed and ended."""
