"""What goes of an agent's private /tmp at its end: empty mount points, nothing else."""

from swarm.supervisor.agents.private_tmp import remove_private_tmp


def test_empty_mount_points_go_and_the_folder_with_them(tmp_path):
    folder = tmp_path / "private"
    (folder / "a" / "work").mkdir(parents=True)
    (folder / "a" / "more").mkdir()
    remove_private_tmp(folder, ("/tmp/a/work", "/tmp/a/more/", "/home/x", "/tmp", "/tmp/../etc"))
    assert not folder.exists()


def test_what_commands_left_there_stays_and_so_does_an_empty_folder_of_theirs(tmp_path):
    folder = tmp_path / "private"
    (folder / "a" / "work").mkdir(parents=True)
    (folder / "a" / "kept").write_text("x")
    (folder / "build").mkdir()
    remove_private_tmp(folder, ("/tmp/a/work",))
    found = {str(one.relative_to(folder)) for one in folder.rglob("*")}
    assert found == {"a", "a/kept", "build"}


def test_no_link_is_followed(tmp_path):
    folder, elsewhere = tmp_path / "private", tmp_path / "elsewhere"
    folder.mkdir()
    (elsewhere / "work").mkdir(parents=True)
    (folder / "a").symlink_to(elsewhere)
    (folder / "work").symlink_to(elsewhere / "work")
    remove_private_tmp(folder, ("/tmp/a/work", "/tmp/work"))
    assert (elsewhere / "work").is_dir()
    assert (folder / "a").is_symlink()


def test_a_folder_that_is_gone_is_no_fault(tmp_path):
    remove_private_tmp(tmp_path / "gone", ("/tmp/a",))
