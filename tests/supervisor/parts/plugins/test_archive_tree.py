"""Archives of plugins: what is read, and that everything that leads out is refused."""

import io
import tarfile
import zipfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.mailbox.base.errors import UsageError
from swarm.roles.parts.plugins.files.plugin_tree import MAX_FILE_BYTES, MAX_FILES, LeftOut, TreeFile
from swarm.supervisor.parts.plugins.archive_tree import read_archive_stream


def tar(*members, mode="w:gz"):
    """`members`: names with content, or TarInfo."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode=mode) as archive:
        for member in members:
            info = member if isinstance(member, tarfile.TarInfo) else tarfile.TarInfo(member[0])
            data = b"" if isinstance(member, tarfile.TarInfo) else member[1]
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    stream.seek(0)
    return stream


def zipped(*members):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, data in members:
            archive.writestr(name, data)
    stream.seek(0)
    return stream


def special(name, kind, target=""):
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


def read(stream):
    return read_archive_stream(stream, shown="x.tar")


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2", "w:xz"])
def test_a_tar_is_read_in_every_compression(mode):
    wanted = [TreeFile(name="a", data=b"1"), TreeFile(name="b/c", data=b"2")]
    assert read(tar(("a", b"1"), ("b/c", b"2"), mode=mode)) == wanted


def test_a_zip_is_read_and_a_single_folder_at_the_top_is_taken_off():
    found = read(zipped(("repo-main/a", b"1"), ("repo-main/.claude-plugin/plugin.json", b"{}")))
    assert [one.name for one in found] == ["a", ".claude-plugin/plugin.json"]


@pytest.mark.parametrize("top", ["skills", ".claude-plugin"])
def test_a_part_of_a_plugin_at_the_top_stays(top):
    assert [one.name for one in read(zipped((f"{top}/x", b"")))] == [f"{top}/x"]


@pytest.mark.parametrize(
    "name", ["../x", "a/../../x", "/etc/passwd", "a//b", "a\nb", "a\\..\\b", "./../x"]
)
@pytest.mark.parametrize("make", [tar, zipped])
def test_a_name_that_leads_out_refuses_the_archive(make, name):
    with pytest.raises(UsageError, match=r"x\.tar: .*(leads out|cannot be read)"):
        read(make(("good", b""), (name, b"bad")))


@pytest.mark.parametrize(
    "member",
    [
        special("x", tarfile.SYMTYPE, "/etc/passwd"),
        special("a/x", tarfile.SYMTYPE, "../../x"),
        special("x", tarfile.LNKTYPE, "../x"),
        special("x", tarfile.CHRTYPE),
        special("x", tarfile.BLKTYPE),
        special("x", tarfile.FIFOTYPE),
    ],
    ids=lambda member: f"{member.type!r}{member.linkname}",
)
def test_links_out_and_devices_refuse_the_archive(member):
    with pytest.raises(UsageError):
        read(tar(("good", b""), member))


def test_a_link_inside_is_left_out_and_named():
    found = read(tar(("a/b", b"1"), special("a/c", tarfile.SYMTYPE, "b")))
    assert found[1] == LeftOut(name="c", why="it is a link, or no regular file")


def test_a_zips_link_out_refuses_the_archive():
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        info = zipfile.ZipInfo("x")
        info.external_attr = 0o120777 << 16
        archive.writestr(info, "/etc/passwd")
    stream.seek(0)
    with pytest.raises(UsageError, match="leads out"):
        read(stream)


def test_ten_thousand_files_are_refused():
    with pytest.raises(UsageError, match=f"{MAX_FILES:,} files"):
        read(zipped(*((f"f{number}", b"") for number in range(10_000))))


def test_a_file_that_is_too_large_is_refused_before_it_is_read():
    with pytest.raises(UsageError, match="too large"):
        read(tar(("x", bytes(MAX_FILE_BYTES + 1))))


def test_a_large_header_before_a_file_is_refused():
    info = tarfile.TarInfo("x")
    info.pax_headers = {"comment": "x" * (200 << 20)}
    with pytest.raises(UsageError):
        read(tar(info))


@given(st.binary(max_size=2_000))
def test_any_bytes_are_an_archive_or_a_readable_error(data):
    for head in (b"", b"PK\x03\x04", b"\x1f\x8b", b"BZh9", b"\xfd7zXZ"):
        try:
            read(io.BytesIO(head + data))
        except UsageError as error:
            assert str(error).startswith("x.tar: ")
