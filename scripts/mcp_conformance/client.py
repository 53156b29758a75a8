"""What the suite takes for the client: swarm's own commands, typed one after the other.

Usage: client.py SWARM URL. It configures the server at URL, lists its tools and calls each. Where a
command says that a login is needed, it logs in, once for each step, and tries again.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

CLIENT_DOCUMENT = "https://conformance-test.local/client-metadata.json"  # the suite's own
LOGIN = "swarm mcp login"
_SAMPLES: dict[str, object] = {"string": "text", "integer": 2, "number": 2, "boolean": True}


class Typist:
    """Types `swarm mcp …` with a home of its own."""

    def __init__(self, swarm: str, home: Path) -> None:
        self._swarm = swarm
        browser = f"{sys.executable} {Path(__file__).with_name('follow.py')} %s"
        self._environment = {**os.environ, "SWARM_HOME": str(home), "BROWSER": browser}

    def type(self, *words: str) -> subprocess.CompletedProcess[str]:
        """One command; its output is shown too."""
        done = subprocess.run(
            [self._swarm, "mcp", *words],
            env=self._environment, cwd=self._environment["SWARM_HOME"], stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=40, check=False,
        )  # fmt: skip
        sys.stderr.write(f"$ swarm mcp {' '.join(words)}\n{done.stdout}{done.stderr}")
        return done

    def type_logged_in(self, *words: str) -> subprocess.CompletedProcess[str]:
        """One command; after a login, if it says that it needs one."""
        done = self.type(*words)
        if LOGIN in done.stdout + done.stderr:
            self.type("login", "subject", "--timeout", "15")
            done = self.type(*words)
        return done


def configuration(url: str) -> str:
    """The server's table, with the client's facts that the suite hands over."""
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))
    lines = ["[mcp_servers.subject]", f'url = "{url}"', "tool_timeout_sec = 20"]
    client = context.get("client_id", "")
    if os.environ.get("MCP_CONFORMANCE_SCENARIO") == "auth/basic-cimd":
        client = CLIENT_DOCUMENT
    lines += [f'oauth_client_id = "{client}"'] if client else []
    if secret := context.get("client_secret"):
        os.environ["SUBJECT_SECRET"] = secret
        lines.append('oauth_client_secret_env_var = "SUBJECT_SECRET"')
    if key := context.get("private_key_pem"):
        os.environ["SUBJECT_KEY"] = key
        lines.append('oauth_client_key_env_var = "SUBJECT_KEY"')
    if os.environ.get("MCP_CONFORMANCE_SCENARIO", "").startswith("auth/client-credentials-"):
        lines.append('oauth_grant = "client_credentials"')
    return "\n".join(lines) + "\n"


def sample(parameters: dict[str, dict[str, dict[str, str]]]) -> dict[str, object]:
    """Arguments that a schema takes."""
    properties = parameters.get("properties", {})
    return {name: _SAMPLES.get(one.get("type", ""), "text") for name, one in properties.items()}


def main() -> int:
    """Use the server; 1 if something of it did not work."""
    swarm, url = sys.argv[1:3]
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "config.toml").write_text(configuration(url), "utf-8")
        typist = Typist(swarm, Path(folder))
        listed = typist.type_logged_in("tools", "subject", "--json")
        if listed.returncode != 0:
            return 1
        failed = 0
        for tool in json.loads(listed.stdout)["tools"]:
            arguments = json.dumps(sample(tool["parameters"]))
            done = typist.type_logged_in(
                "call", "subject", tool["tool"], arguments, "--answer-defaults"
            )
            failed |= done.returncode
        return failed


if __name__ == "__main__":
    raise SystemExit(main())
