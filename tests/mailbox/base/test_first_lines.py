"""Which programs a script's first line starts."""

import pytest

from swarm.mailbox.base.first_lines import interpreter_words


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"", ()),
        (b"\x7fELF", ()),
        (b"# a comment", ()),
        (b"#!/bin/sh", ("/bin/sh",)),
        (b"#! /bin/sh -e", ("/bin/sh",)),
        (b"#!/bin/sh\t-e\r", ("/bin/sh",)),
        (b"#!python3", ("python3",)),
        (b"#!/usr/bin/env python3", ("/usr/bin/env", "python3")),
        (b"#!/usr/bin/env  /p/.venv/bin/python", ("/usr/bin/env", "/p/.venv/bin/python")),
        (b"#!/usr/bin/env -S python3 -u", ("/usr/bin/env", "python3")),
        (b"#!/usr/bin/env -Snode --x", ("/usr/bin/env", "node")),
        (b"#!/usr/bin/env --split-string=A=1 -u X -i deno run", ("/usr/bin/env", "deno")),
        (b"#!/usr/bin/env -S env X=1 perl", ("/usr/bin/env", "perl")),
        (b"#!", ()),
    ],
)
def test_the_programs_of_a_first_line(line: bytes, words: tuple[str, ...]) -> None:
    assert interpreter_words(line) == words


@pytest.mark.parametrize(
    "line", [b"#!/usr/bin/env", b"#!/usr/bin/env -S", b"#!/usr/bin/env -C/p x",
             b"#!/usr/bin/env -S 'open"]
)  # fmt: skip
def test_what_env_would_start_is_known_or_refused(line: bytes) -> None:
    with pytest.raises(ValueError, match=r"env|quotation"):
        interpreter_words(line)
