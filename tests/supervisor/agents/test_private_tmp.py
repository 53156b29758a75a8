"""What goes of an agent's private /tmp at its end: empty mount points, nothing else."""

from swarm.supervisor.agents.private_tmp import (
    remove_all_caches,
    remove_private_tmp,
    set_caches_aside,
)


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


def test_caches_are_taken_out_and_removed_even_as_a_link(tmp_path):
    (tmp_path / "kept").mkdir()
    for name in ("a", "b", "mcp/1"):
        (tmp_path / "tmp" / name).mkdir(parents=True)
    (tmp_path / "tmp/a/.caches/npm/x").mkdir(parents=True)
    (tmp_path / "tmp/b/.caches").symlink_to(tmp_path / "kept")
    (tmp_path / "tmp/b/words").touch()
    (tmp_path / "tmp/mcp/1/.caches").touch()
    aside = set_caches_aside(tmp_path / "tmp/a")
    assert set_caches_aside(tmp_path / "tmp/a") is None
    assert (aside / "npm/x").is_dir()
    remove_private_tmp(tmp_path / "tmp/a", ())
    remove_all_caches(tmp_path / "tmp")
    left = [str(one.relative_to(tmp_path)) for one in sorted(tmp_path.rglob("*"))]
    assert left == ["kept", "tmp", "tmp/b", "tmp/b/words", "tmp/mcp"]
