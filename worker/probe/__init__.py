"""`swarm models probe`: what a model can do of an agent's work, measured at the real thing."""
