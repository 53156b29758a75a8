"""The process that finds a cloud's credentials: what it refuses, and what it says."""

import sys

import msgspec
import pytest

from swarm.mailbox.base.writable_places import WritablePlaces
from swarm.worker.parts.clouds import cloud_process
from swarm.worker.parts.clouds.cloud_process import CloudOrder, CredentialsMissing, main


def order(**more):
    given = {"kind": "aws", "profile": "", "credentials_file": "", "scopes": ("s",), "files": ()}
    return CloudOrder(**{"places": WritablePlaces(), **given, **more})


def told(capsys, monkeypatch, given):
    monkeypatch.setattr("sys.argv", ["x", msgspec.json.encode(given).decode()])
    code = main()
    return code, capsys.readouterr()


@pytest.mark.parametrize(("kind", "extra"), [("aws", "bedrock"), ("google", "vertex")])
def test_a_library_that_is_not_there_is_said_with_the_line_that_installs_it(
    capsys, monkeypatch, kind, extra
):
    for name in ("botocore.session", "google.auth"):
        monkeypatch.setitem(sys.modules, name, None)
    code, said = told(capsys, monkeypatch, order(kind=kind))
    assert (code, said.out) == (1, "")
    assert "its library is not installed" in said.err
    assert extra in said.err


def test_a_folder_of_the_person_with_an_entry_that_agents_may_write_is_not_read(
    capsys, monkeypatch, tmp_path
):
    project, own = tmp_path / "project", tmp_path / ".aws"
    project.mkdir()
    own.mkdir()
    (project / "config").write_text("")
    (own / "config").symlink_to(project / "config")
    places = WritablePlaces(roots=(str(project),))
    code, said = told(capsys, monkeypatch, order(files=(str(own),), places=places))
    assert code == 1
    assert "where agents may write" in said.err


@pytest.mark.parametrize("text", ["a\nb", "k\u00e9y", "x" * 40_000])
def test_what_no_header_may_hold_is_no_credential(text):
    with pytest.raises(CredentialsMissing):
        cloud_process._fit(text)
