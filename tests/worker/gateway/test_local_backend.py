"""The embedded model's file and memory: what is found, checked, loaded and refused."""

import hashlib

import pytest

from swarm.worker.gateway import local_model, weights
from swarm.worker.gateway.backend import SampleError
from swarm.worker.gateway.gguf_header import GgufHeader
from swarm.worker.gateway.local_backend import choose_capable_model, prepare_local
from swarm.worker.gateway.local_model import load_error, plan_local_model

HEADER = GgufHeader(architecture="a", context_window=8192, layers=10, key_value_width=1000)
GB = 1_000_000_000


def plan(available_bytes, tmp_path):
    return plan_local_model(
        tmp_path / "m.gguf", HEADER, size_bytes=GB, window=10_000, available_bytes=available_bytes
    )


def test_the_cache_has_room_for_one_conversation(tmp_path):
    done = plan(2 * GB, tmp_path)
    assert done.context_tokens == 10_000
    assert done.memory_bytes == GB + 2 * 10 * 1000 * 10_000 + GB // 4
    assert f"about {done.memory_bytes / 1e9:.1f} GB of memory" in done.describe()


def test_too_little_memory_is_told_with_both_figures_before_anything_is_loaded(tmp_path):
    with pytest.raises(SampleError, match=r"needs about 1\.4 GB.*and 1\.0 GB are free"):
        plan(GB, tmp_path)


@pytest.fixture
def catalogue(tmp_path):
    data = b"GGUF weights"
    file = tmp_path / "models.toml"
    file.write_text(
        f'[weights.mine]\nfile = "mine.gguf"\nsize_bytes = {len(data)}\n'
        f'sha256 = "{hashlib.sha256(data).hexdigest()}"\nsources = []\n'
    )
    return data, (str(file),)


async def test_a_file_that_somebody_put_there_is_checked_once_and_then_used(tmp_path, catalogue):
    data, additions = catalogue
    (tmp_path / "mine.gguf").write_bytes(data)
    reports = []
    assert await prepare_local(tmp_path, "mine", additions, reports.append) is None
    assert [report.what for report in reports] == ["mine (checking the file mine.gguf)"]
    assert weights.find_weights(tmp_path, "mine", additions) == tmp_path / "mine.gguf"
    assert await prepare_local(tmp_path, "mine", additions, reports.append) is None
    assert len(reports) == 1


@pytest.mark.parametrize("data", [b"GGUF", b"GGUF weightz"])
async def test_another_file_under_the_name_is_refused_with_what_to_do(data, tmp_path, catalogue):
    _, additions = catalogue
    (tmp_path / "mine.gguf").write_bytes(data)
    problem = await prepare_local(tmp_path, "mine", additions, lambda report: None)
    assert problem is not None
    assert "is not the file that the catalogue names for mine" in problem
    assert "swarm models add" in problem


async def test_a_missing_file_without_a_source_is_told(tmp_path, catalogue):
    _, additions = catalogue
    problem = await prepare_local(tmp_path, "mine", additions, lambda report: None)
    assert problem is not None
    assert "could not be fetched" in problem


CAPABLE = """
[weights.small]
file = "small.gguf"
size_bytes = 10
sha256 = "x"
sources = []
can_call_tools = true
[weights.large]
file = "large.gguf"
size_bytes = 20
sha256 = "x"
sources = []
can_call_tools = true
[weights.talker]
file = "talker.gguf"
size_bytes = 30
sha256 = "x"
sources = []
"""


@pytest.mark.parametrize(
    ("files", "free_gib", "chosen"),
    [
        ({"small": 10, "large": 20, "talker": 30}, 16, "large"),
        ({"small": 10, "talker": 30}, 8, "small"),
        ({"small": 10}, 7, None),  # too little memory
        ({"small": 9}, 16, None),  # half a file
        ({"talker": 30}, 16, None),  # it cannot call tools
        ({}, 16, None),
    ],
)
def test_a_capable_file_that_is_here_is_taken_where_memory_is_free(
    files, free_gib, chosen, tmp_path
):
    additions = tmp_path / "models.toml"
    additions.write_text(CAPABLE)
    for name, size in files.items():
        (tmp_path / f"{name}.gguf").write_bytes(b"x" * size)
    free_bytes = free_gib << 30
    assert choose_capable_model(tmp_path, [str(additions)], free_bytes=free_bytes) == chosen


def test_the_librarys_reason_is_found_in_its_log():
    log = (
        "0.1 I srv init: loading model\n"
        "0.2 E llama_model_load: error loading model: tensor 'a' data is not within the file "
        "bounds, model is corrupted or incomplete\n0.3 E srv init: exiting\n"
    )
    assert load_error(log).startswith("tensor 'a' data is not within the file bounds")
    assert load_error("0.1 I all is well\n") == ""


def test_the_memory_that_is_free_is_the_kernels_estimate(tmp_path, monkeypatch):
    file = tmp_path / "meminfo"
    file.write_text("MemTotal: 9 kB\nMemAvailable:    1024 kB\n")
    monkeypatch.setattr(local_model, "_MEMORY_FILE", file)
    assert local_model.available_memory_bytes() == 1 << 20
