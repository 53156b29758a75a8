"""A look at a repository is bounded and follows no link, whatever lies there."""

from pathlib import Path

from swarm.supervisor.clients.repository_facts.repository_survey import survey_repository


def test_files_are_counted_by_kind_and_build_files_are_read(tmp_path: Path):
    (tmp_path / "src" / "deep").mkdir(parents=True)
    for name in ("src/a.py", "src/deep/b.py", "src/c.md"):
        (tmp_path / name).write_text("x")
    (tmp_path / "Makefile").write_text("test:\n")
    (tmp_path / ".github" / "workflows").mkdir(parents=True)
    (tmp_path / ".github" / "workflows" / "ci.yml").write_text("run: make test\n")
    seen = survey_repository(tmp_path.resolve())
    assert [(one.name, one.files, one.kinds) for one in seen.folders] == [
        ("src", 3, (".py", ".md"))
    ]
    assert set(seen.files) == {"Makefile", ".github/workflows/ci.yml"}
    assert not seen.is_cut


def test_links_and_what_is_installed_or_hidden_are_not_looked_at(tmp_path: Path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.py").write_text("x")
    (outside / "Makefile").write_text("steal:\n")
    root = tmp_path / "root"
    for name in ("node_modules", ".cache", "src"):
        (root / name).mkdir(parents=True)
        (root / name / "a.js").write_text("x")
    (root / "linked").symlink_to(outside)
    (root / "src" / "linked").symlink_to(outside)
    (root / "src" / "loop").symlink_to(root)
    (root / "Makefile").symlink_to(outside / "Makefile")
    (root / ".github").symlink_to(outside)
    seen = survey_repository(root.resolve())
    assert [(one.name, one.files) for one in seen.folders] == [("src", 1)]
    assert seen.files == {}


def test_a_folder_of_very_many_files_is_cut_and_says_so(tmp_path: Path):
    (tmp_path / "many").mkdir()
    for number in range(10_050):
        (tmp_path / "many" / f"{number}.py").touch()
    (tmp_path / "more").mkdir()
    for number in range(10_050):
        (tmp_path / "more" / f"{number}.py").touch()
    seen = survey_repository(tmp_path.resolve())
    assert seen.is_cut
    assert sum(one.files for one in seen.folders) < 20_000


def test_a_build_file_of_10_mb_is_read_in_part_alone(tmp_path: Path):
    (tmp_path / "Makefile").write_bytes(b"test:\n" + b"x" * (10 << 20))
    assert len(survey_repository(tmp_path.resolve()).files["Makefile"]) == 64 << 10
