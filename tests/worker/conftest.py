"""Fixtures for the worker's room: `environment`, in which no proxy is named."""

import os

import pytest

from swarm.mailbox.proxies import proxies_of


@pytest.fixture
def environment(monkeypatch):
    for name in proxies_of(os.environ):
        monkeypatch.delenv(name)
    return monkeypatch
