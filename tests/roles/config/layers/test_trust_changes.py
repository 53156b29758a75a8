"""What changed since the last yes is named, by files, and a no forgets nothing of it."""

from pathlib import Path

import msgspec

from swarm.roles.config.layers.project_config import ProjectFolder
from swarm.roles.config.layers.trust import (
    TRUST_FILE,
    FileChanges,
    forget_trust_decisions,
    read_trust,
    save_trust_decision,
)


def folder(digest: str, **files: bytes) -> ProjectFolder:
    named = {f"/p/.swarm/{name}": data for name, data in files.items()}
    return ProjectFolder(folder="/p", root="/p", files=named, digest=digest)


def test_files_that_differ_from_what_was_trusted_are_named(tmp_path):
    first = folder("1", a=b"1", b=b"2", c=b"3")
    assert read_trust(tmp_path).changes(first) is None
    save_trust_decision(tmp_path, [first], trusted=True)
    later = folder("2", a=b"1", b=b"other", d=b"4")
    changes = read_trust(tmp_path).changes(later)
    assert changes == FileChanges(changed=("b",), new=("d",), gone=("c",))
    assert str(changes) == "changed: b; new: d; gone: c"
    save_trust_decision(tmp_path, [later], trusted=False)
    assert read_trust(tmp_path).changes(later) == changes


def test_a_store_of_before_is_read_and_a_forgotten_folder_names_nothing(tmp_path):
    path = tmp_path / TRUST_FILE
    known = {"version": 1, "folders": {"/p": {"trusted": ["1"], "declined": []}}}
    path.write_bytes(msgspec.json.encode(known))
    path.chmod(0o600)
    one = folder("1", a=b"1")
    assert read_trust(tmp_path).trust_state(one) == "trusted"
    assert read_trust(tmp_path).changes(one) is None
    save_trust_decision(tmp_path, [one], trusted=True)
    assert read_trust(tmp_path).changes(one) is None
    assert str(read_trust(tmp_path).changes(folder("2", a=b"2"))) == "changed: a"
    forget_trust_decisions(tmp_path, Path("/p"))
    assert read_trust(tmp_path).changes(one) is None


def test_many_files_are_counted():
    assert (
        str(FileChanges(new=tuple("abcdefghijkl")))
        == "new: a, b, c, d, e, f, g, h, i, j and 2 more"
    )
