"""The tools with which an agent searches memories, and doubts one."""
