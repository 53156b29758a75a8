"""Model files that are here already: added under a name, or used as a known model's file."""

import hashlib
import struct

import pytest

from swarm.mailbox.base.errors import UsageError
from swarm.worker.gateway.added_model import add_model, link_known_model
from swarm.worker.gateway.gguf_header import NotAModelFile
from swarm.worker.gateway.model_catalogue import load_catalogue
from swarm.worker.gateway.weights import find_weights, load_weights

DATA = b"GGUF" + struct.pack("<IQQ", 3, 0, 0)


def nothing(have, total):
    """No progress is shown."""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "My Model-Q4.gguf"
    path.write_bytes(DATA)
    return path


def test_an_added_file_is_a_model_of_the_embedded_provider_and_stays_where_it_is(tmp_path, file):
    catalogue, models = tmp_path / "models.toml", tmp_path / "models"
    catalogue.write_text("# mine\n[weights.other]\nfile='o'\nsize_bytes=1\nsha256='x'\nsources=[]")
    before = catalogue.read_text()
    name, link = add_model(models, file, (str(catalogue),), nothing, name="", catalogue=catalogue)
    assert name == "my-model-q4"
    assert link.resolve() == file
    assert find_weights(models, name, (str(catalogue),)) == link
    assert catalogue.read_text().startswith(before + "\n")
    entry = load_catalogue([str(catalogue)]).entries[name]
    assert (entry.provider, entry.can_call_tools, entry.constrained_calls) == ("local", True, True)


@pytest.mark.parametrize(
    ("name", "said"), [("A B", "cannot be a model's name"), ("smollm2", "already")]
)
def test_a_bad_name_or_a_taken_one_is_refused_and_nothing_is_written(tmp_path, file, name, said):
    catalogue = tmp_path / "models.toml"
    with pytest.raises(UsageError, match=said):
        add_model(tmp_path / "models", file, (), nothing, name=name, catalogue=catalogue)
    assert not catalogue.exists()
    assert not (tmp_path / "models").exists()


def test_what_is_no_model_file_is_not_added(tmp_path):
    other = tmp_path / "a.gguf"
    other.write_bytes(b"text")
    with pytest.raises(NotAModelFile):
        add_model(tmp_path / "m", other, (), nothing, name="a", catalogue=tmp_path / "c")
    with pytest.raises(UsageError, match="there is no file"):
        add_model(tmp_path / "m", tmp_path / "no", (), nothing, name="a", catalogue=tmp_path / "c")


def test_a_file_is_used_as_a_known_model_only_with_its_checksum(tmp_path, file):
    catalogue = tmp_path / "models.toml"
    digest = hashlib.sha256(DATA).hexdigest()
    table = f'file="k.gguf"\nsize_bytes={len(DATA)}\nsources=[]\nsha256="{digest}"\n'
    catalogue.write_text(f"[weights.known]\n{table}")
    additions = (str(catalogue),)
    link = link_known_model(tmp_path / "models", "known", file, additions, nothing)
    assert find_weights(tmp_path / "models", "known", additions) == link
    file.write_bytes(DATA + b"x")
    with pytest.raises(UsageError, match="is not the file of known"):
        link_known_model(tmp_path / "models", "known", file, additions, nothing)


def test_a_name_with_quotes_in_the_header_cannot_break_the_catalogue(tmp_path):
    name = b'x"\n[weights.evil]\nfile="e'
    pair = struct.pack("<Q", 12) + b"general.name" + struct.pack("<IQ", 8, len(name)) + name
    file = tmp_path / "a.gguf"
    file.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + pair)
    catalogue = tmp_path / "models.toml"
    add_model(tmp_path / "models", file, (), nothing, name="", catalogue=catalogue)
    assert "evil" not in load_weights([str(catalogue)])
