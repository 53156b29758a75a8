"""Whole runs with every server that people use: parallel calls, an image, the agent's own
compaction after the server's own words for a full window, a fallback when its plan is spent, and a
resume.
"""

import base64
import json

import pytest
import trio

from support.servers.odd_server import OddServer, load_errors, load_profiles
from swarm.mailbox.protocol.records import ContextRecorded

pytestmark = pytest.mark.live
LIMIT_S = 90
PROFILES = {one.name: one for one in load_profiles() if one.server and not one.access}
OTHER = next(one for one in load_profiles() if one.name == "openai chat")
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def run_line(number, prints="true"):
    return "exec_command", {"cmd": f"echo {number} >> made; {prints}"}


class Server(OddServer):
    """Three requests are answered; then the window is full; after two more the plan is spent."""

    def __init__(self, profile, server):
        super().__init__(profile, server)
        said = [one for one in load_errors() if one.server == profile.server]
        full = (one for one in said if one.when == "too long")  # a window in which a prompt fits
        self.full = [max(full, key=lambda one: one.window or 10**9)]
        # A history that can be made shorter, but where the window that is named is small.
        self.prints = "true" if self.full[0].window else "seq 700"
        self.spent = [one for one in said if one.when == "spent"][:1]

    def __call__(self, seen):
        if self.answers == 3 and self.full:
            self.errors = [self.full.pop()]
        elif self.answers == 6 and self.spent:
            self.errors = [*self.spent]
        return super().__call__(seen)

    def _answer(self, calls):
        match self.answers:
            case 2:
                calls = (run_line(2, self.prints), ("view_image", {"path": "dot.png"}))
            case 1 | 3 | 5 | 6 as number:
                calls = (run_line(number, self.prints),)
            case _:  # the summary, and the end
                calls = ()
        return super()._answer(calls)


class Other(OddServer):
    """The provider of the fallback: one command, then an answer."""

    def _answer(self, calls):
        return super()._answer((run_line("other"),) if self.answers == 1 else ())


@pytest.mark.parametrize("name", PROFILES)
async def test_a_run_is_compacted_falls_back_and_is_resumed_with_every_server(
    rig, model_server, name
):
    profile = PROFILES[name]
    odd, other = Server(profile, model_server), Other(OTHER, model_server)
    model_server.choose = lambda seen: (other if "/other/" in seen.target else odd)(seen)
    (rig.work / "dot.png").write_bytes(PNG)
    url = model_server.url
    tables = [
        f'fallback = ["other:{OTHER.model}"]',
        f'[model_providers.first]\nbase_url = "{url}"\nwire_api = "{profile.wire}"',
        f'[model_providers.other]\nbase_url = "{url}/other"\nwire_api = "{OTHER.wire}"',
    ]
    rig.home.joinpath("config.toml").write_text("\n".join(tables))
    with trio.fail_after(LIMIT_S):
        ended = await (await rig.run("first", "-m", profile.model)).wait_end()
        assert (ended.code, ended.out) == (0, "Done.\n"), ended.err
        (record,) = rig.bodies(ContextRecorded)
        assert record.shortened.means == "model"
        made = (rig.work / "made").read_text().split()
        assert made == ["1", "2", "3", "5", "6", *(["other"] if odd.spent else [])]
        assert bool(other.answers) == bool(odd.spent)
        again = await (await rig.resume("-p", "again")).wait_end()
    assert again.code == 0, again.err
    sees = all(rule.rule != "images" for rule in profile.refuses)
    assert any("iVBORw0KGgo" in json.dumps(one) for one in odd.accepted) == sees
