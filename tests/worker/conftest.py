"""Fixtures for the worker's room: `environment`, in which no proxy is named."""

import os

import pytest

from swarm.mailbox.base.proxy_environment import proxy_variables


@pytest.fixture
def environment(monkeypatch):
    for name in proxy_variables(os.environ):
        monkeypatch.delenv(name)
    return monkeypatch
