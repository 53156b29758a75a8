"""The servers' logs on disk."""

from swarm.mailbox.base.redact import Redactor
from swarm.supervisor.parts.mcp.log_files import MAX_FILE_BYTES, ServerLogFiles, log_path

KEY = "a-key-that-nobody-may-see-0123456789"


def test_known_secrets_are_redacted_and_others_cannot_read_the_file(tmp_path):
    folder = tmp_path / "mcp"
    files = ServerLogFiles(folder, Redactor([KEY]))
    files.append("a", f"began with {KEY}\n")
    files.append("a", "on\n")
    text = log_path(folder, "a").read_text()
    assert KEY not in text
    assert text.endswith("on\n")
    assert folder.stat().st_mode & 0o777 == 0o700
    assert log_path(folder, "a").stat().st_mode & 0o777 == 0o600


def test_a_log_is_bounded_and_its_newest_part_stays(tmp_path):
    files = ServerLogFiles(tmp_path, Redactor([]))
    for number in range(3 * MAX_FILE_BYTES // 10_000):
        files.append("a", f"{number} ".ljust(9_999, ".") + "\n")
    kept = sum(path.stat().st_size for path in tmp_path.iterdir())
    assert kept < 2 * MAX_FILE_BYTES + 50_000
    assert f"\n{number} " in log_path(tmp_path, "a").read_text()


def test_a_link_in_place_of_the_log_is_not_followed(tmp_path):
    other = tmp_path / "other"
    other.write_text("")
    log_path(tmp_path, "a").symlink_to(other)
    ServerLogFiles(tmp_path, Redactor([])).append("a", "text")
    assert other.read_text() == ""
