"""The commands of memories, and the program that asks a model."""
