"""Builds a run request from options, task file and configuration."""
