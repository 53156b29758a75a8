"""A script of answers is found from where its layer stands, as every path of a layer is."""

from pathlib import Path

import pytest

from swarm.roles.config.layers.layer_paths import absolute_paths


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("scripted:../x.yaml", "scripted:/p/x.yaml"),
        ("scripted:/a/b.yaml", "scripted:/a/b.yaml"),
        ("openai", "openai"),
    ],
)
def test_the_path_of_a_script_is_that_of_its_layer(given, found):
    assert absolute_paths({"model_provider": given}, Path("/p/q")) == {"model_provider": found}
