"""Files and selections that an editor links: what is read, and what stays a link."""

import pytest
from acp.schema import ResourceContentBlock, TextContentBlock

from swarm.supervisor.clients.acp.prompt_blocks import MAX_TEXT_BYTES, PromptContent, selected_lines

LINES = "".join(f"line {number}\n" for number in range(1, 31))


def link(uri: str) -> ResourceContentBlock:
    return ResourceContentBlock(type="resource_link", name="a.py", uri=uri)


async def sent(tmp_path, uri: str, text: str | None, *, honours: bool = True) -> str:
    async def read(path: str, line: int | None, limit: int | None) -> str | None:
        if text is None or not honours or line is None:
            return text
        return "".join(text.splitlines(keepends=True)[line - 1 : line - 1 + (limit or 0)])

    content = PromptContent(tmp_path, read)
    await content.add_all([TextContentBlock(type="text", text="see"), link(uri)])
    return content.text


@pytest.mark.parametrize(
    ("fragment", "lines"),
    [
        ("", (None, None)),
        ("#L7", (7, 1)),
        ("#L5:8", (5, 4)),
        ("#L10-L12", (10, 3)),
        ("#L10-12", (10, 3)),
        ("#L12-L10", (10, 3)),
        ("#10-12", (10, 3)),
        ("#heading", (None, None)),
        ("#L0", (1, 1)),
    ],
)
def test_a_selection_has_its_first_line_and_its_length(fragment, lines):
    assert selected_lines(f"file:///p/a.py{fragment}") == lines


@pytest.mark.parametrize("honours", [True, False])
async def test_of_a_selection_only_its_lines_are_sent(tmp_path, honours):
    text = await sent(tmp_path, "file:///p/a.py#L10-L12", LINES, honours=honours)
    assert "line 10\nline 11\nline 12\n" in text
    assert "line 9\n" not in text
    assert "line 13" not in text


@pytest.mark.parametrize("text", ["x" * (MAX_TEXT_BYTES + 1), "a\x00b", None])
async def test_what_is_too_large_or_no_text_stays_a_link(tmp_path, text):
    assert await sent(tmp_path, "file:///p/a.py", text) == "see\n[a.py](/p/a.py)"
    assert await sent(tmp_path, "file:///p/a.py#L1-L99999", text) == (
        "see\n[a.py](/p/a.py#L1-L99999)"
    )
