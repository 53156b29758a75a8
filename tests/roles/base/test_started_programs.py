"""What a command starts and loads, and which of it agents could exchange."""

from pathlib import Path

import pytest

from swarm.mailbox.base.held_programs import Lookup, find_writable_places
from swarm.mailbox.protocol.mcp import McpServer
from swarm.mailbox.protocol.values.limits import WorkspaceWrite
from swarm.roles.base.started_programs import (
    find_started,
    has_rights,
    parts_to_protect,
    server_folder,
    why_started_unheld,
)

ELF = "\x7fELF"


class Setup:
    """A machine's programs outside, and a project with programs, modules and an environment."""

    def __init__(self, top: Path) -> None:
        self.top, self.project, self.bin = top, top / "project", top / "bin"
        for name in ("python3", "node", "npx", "uvx", "uv", "bash", "npm", "server", "make"):
            self.add(self.bin / name)
        self.venv = self.project / ".venv"
        self.add(self.venv / "bin/python", link=self.bin / "python3")
        (self.venv / "pyvenv.cfg").touch()
        self.add(self.venv / "bin/tool", f"#!{self.venv}/bin/python\n")
        self.add(self.project / "server.py", "print()")
        self.add(self.project / "tools/server.py", "print()")
        self.add(self.project / "dist/index.js", "")
        self.add(self.project / "dist/x.js", "")
        (self.project / "src").mkdir()
        (self.project / "node_modules").mkdir()
        self.add(top / "outside/server.py", "print()")

    @staticmethod
    def add(path: Path, text: str = ELF, *, link: Path | None = None) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        if link is not None:
            path.symlink_to(link)
            return
        path.write_text(text)
        path.chmod(0o755)

    def lookup(self, cwd: Path | None = None) -> Lookup:
        places = find_writable_places(WorkspaceWrite(), str(self.project))
        return Lookup(f"{self.venv}/bin:{self.bin}", str(cwd or self.project), places)

    def words(self, line: str) -> tuple[str, ...]:
        return tuple(line.format(p=self.project, o=self.top / "outside").split())


@pytest.fixture
def setup(tmp_path: Path) -> Setup:
    return Setup(tmp_path.resolve())


# what is started in the project → held as it is, by protecting these, or not at all
TABLE = [
    ("server", "held"),
    ("node {o}/index.js", "held"),
    ("python3 -I {o}/server.py", "held"),
    ("npx -y @scope/server {p}", "never"),  # by its folder; `server_folder` gives it another one
    ("uvx mcp-server-git --repository {p}", "held"),
    ("uvx --from {p} server", "never"),
    ("uv run server.py", "never"),
    ("uv --directory {p} run server", "never"),
    ("npm start", "never"),
    ("make serve", "never"),
    ("bash -c server", "held"),
    ("bash -c ./server.py", "never"),
    ("bash tools/server.py", "never"),
    ("python3 -m server", "never"),
    ("python3 -Im server", "held"),
    ("python3 server.py", "never"),  # its folder is the project itself
    ("python3 -I server.py", "server.py"),
    ("python3 -u tools/server.py", "tools/server.py tools"),
    ("tool", ".venv/bin/tool .venv"),
    (".venv/bin/python -I tools/server.py", ".venv/bin/python .venv tools/server.py"),
    ("node dist/index.js", "dist/index.js dist node_modules"),
    ("node --require ./dist/x.js {o}/index.js", "dist/x.js"),
    ("node --require ./later.js {o}/index.js", "never"),  # an agent can make it
    ("node later/index.js", "never"),
]


@pytest.mark.parametrize(("line", "wanted"), TABLE, ids=[one for one, _ in TABLE])
def test_what_is_started_is_held_or_can_be_protected_or_neither(
    setup: Setup, line: str, wanted: str
) -> None:
    lookup = setup.lookup()
    found = find_started(setup.words(line), lookup)
    assert found.path
    why, closing = why_started_unheld(found, lookup), parts_to_protect(found, lookup)
    if wanted == "held":
        assert (why, closing) == ("", ())
        return
    assert "where agents may write" in why or "agents may write there" in why
    if wanted == "never":
        assert closing == ()
        return
    inside = {str(Path(one).relative_to(setup.project)) for one in closing if "project" in one}
    expected = {one.replace(".venv/bin/python", "") for one in wanted.split()} - {""}
    assert expected <= inside | {".venv/bin/tool"}
    shut = (*lookup.places.shut, *closing)
    closed = lookup._replace(
        places=find_writable_places(WorkspaceWrite(), str(setup.project), shut=shut)
    )
    assert why_started_unheld(find_started(setup.words(line), closed), closed) == ""


def test_a_package_that_is_fetched_starts_in_the_home_folder(setup: Setup) -> None:
    home, here = str(setup.top), str(setup.project)

    def folder(*words: str, cwd: str = "", network: bool = True) -> str:
        server = McpServer(name="s", command=words[0], args=words[1:], cwd=cwd, network=network)
        return server_folder(server, home, here)

    assert folder("npx", "-y", "@scope/server", "/p") == home
    assert folder("/usr/bin/npx", "server") == home
    assert folder("python3", "-m", "installed_server") == home
    assert folder("python3", "-m", "server") == here  # it lies here
    assert folder("npx", "./server") == here
    assert folder("npx", "server", cwd="/srv") == "/srv"
    assert folder("npx", "server", network=False) == here
    assert folder("node", "dist/index.js") == here
    found = find_started(("npx", "-y", "@scope/server", here), setup.lookup(setup.top))
    assert why_started_unheld(found, setup.lookup(setup.top)) == ""


@pytest.mark.parametrize(
    ("server", "rights"),
    [
        (McpServer(name="s", command="x"), False),
        (McpServer(name="s", url="https://x", network=True), False),
        (McpServer(name="s", command="x", network=True), True),
        (McpServer(name="s", command="x", environment={"TOKEN": "TOKEN"}), True),
        (McpServer(name="s", command="x", writable_roots=("/srv",)), True),
        (McpServer(name="s", command="x", sandboxed=False), True),
    ],
)
def test_rights_are_what_no_command_of_an_agent_has(server: McpServer, rights: bool) -> None:
    assert has_rights(server) is rights


def test_a_search_path_of_its_table_is_a_part(setup: Setup) -> None:
    argv = ("python3", "-I", f"{setup.top}/outside/server.py")
    found = find_started(argv, setup.lookup(), {"PYTHONPATH": f"{setup.project}/src"})
    assert why_started_unheld(found, setup.lookup())
    assert parts_to_protect(found, setup.lookup()) == (f"{setup.project}/src",)


def test_a_link_in_the_project_cannot_be_protected(setup: Setup) -> None:
    (setup.project / "run").symlink_to(setup.bin / "server")
    found = find_started(("./run",), setup.lookup())
    assert why_started_unheld(found, setup.lookup())
    assert parts_to_protect(found, setup.lookup()) == ()
