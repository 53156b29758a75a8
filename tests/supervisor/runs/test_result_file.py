"""`-o`: the answer goes to the folder that the person named, whatever stands in its place later."""

import os

import pytest

from swarm.mailbox.base.errors import SwarmError, UsageError
from swarm.supervisor.runs.result_file import ResultFile


def test_the_answer_goes_to_the_folder_that_was_there_when_the_run_began(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "home").mkdir()
    target = ResultFile(tmp_path / "out" / ".bashrc")
    (tmp_path / "out").rename(tmp_path / "moved")
    (tmp_path / "out").symlink_to("home")
    target.write("answer")
    assert os.listdir(tmp_path / "home") == []
    assert (tmp_path / "moved" / ".bashrc").read_text() == "answer"


def test_a_link_in_the_files_place_is_replaced_and_not_followed(tmp_path):
    (tmp_path / "mine").write_text("mine")
    target = ResultFile(tmp_path / "o.md")
    (tmp_path / "o.md").symlink_to("mine")
    target.write("answer")
    assert ((tmp_path / "mine").read_text(), (tmp_path / "o.md").read_text()) == ("mine", "answer")


def test_a_folder_that_is_missing_or_goes_and_a_protected_name_are_said(tmp_path):
    with pytest.raises(UsageError, match="cannot write the result to"):
        ResultFile(tmp_path / "none" / "o.md")
    with pytest.raises(UsageError, match="protected"):
        ResultFile(tmp_path / ".git")
    (tmp_path / "out").mkdir()
    target = ResultFile(tmp_path / "out" / "o.md")
    (tmp_path / "out").rmdir()
    with pytest.raises(SwarmError, match="cannot write the result to"):
        target.write("answer")
