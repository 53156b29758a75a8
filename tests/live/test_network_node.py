"""Node's own `fetch` reaches what is allowed, through the proxy, and nothing else."""

import shlex
import shutil
import ssl
from pathlib import Path

import pytest

from support.proxy_testbed import local, open_proxy_testbed, serving

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed"),
    pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed"),
]
PEM = str(Path(__file__).with_name("index_test.pem"))


def node(body, *, before=""):
    script = (
        f"(async () => {{ {body} }})().catch(e => console.log('failed:', String(e.cause ?? e)))"
    )
    return f"{before} node -e {shlex.quote(script)}"


def shows(url, options=""):
    call = f"const r = await fetch(`{url}`{options}); "
    return "{" + call + "console.log(r.status, await r.text(), r.url);}"


async def test_plain_requests_with_and_without_bodies_go_through_the_proxy():
    async with open_proxy_testbed() as testbed:
        with serving() as server:
            testbed.names["index.test"] = ("127.0.0.1",)
            url = f"http://index.test:{server.server_address[1]}"
            body = shows(f"{url}/a?b=c") + shows(f"{url}/p", ", {method: `POST`, body: `words`}")
            code, said, blocked = await testbed.run(node(body), local("index.test"))
    assert (code, blocked) == (0, []), said
    port = server.server_address[1]
    assert said.splitlines() == [
        f"200 GET /a?b=c host=index.test:{port} {url}/a?b=c",
        f"200 POST words {url}/p",
    ]


async def test_https_goes_through_a_tunnel_and_its_certificate_is_checked():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(PEM)
    async with open_proxy_testbed() as testbed:
        with serving(tls=context) as server:
            testbed.names["index.test"] = ("127.0.0.1",)
            shutil.copy(PEM, testbed.home / "work/ca.pem")
            url = f"https://index.test:{server.server_address[1]}/a"
            trusting = node(shows(url) * 2, before="NODE_EXTRA_CA_CERTS=ca.pem")
            _, said, _ = await testbed.run(trusting, local("index.test"))
            _, doubted, _ = await testbed.run(node(shows(url)), local("index.test"))
    assert said.count(f"200 GET /a host=index.test:{server.server_address[1]} {url}") == 2
    assert "failed:" in doubted
    assert "certificate" in doubted


async def test_what_is_not_allowed_is_refused_by_the_proxy_in_words():
    async with open_proxy_testbed() as testbed:
        body = shows("http://other.test/") + shows("https://other.test/")
        _, said, blocked = await testbed.run(node(body), local("index.test"))
    assert said.startswith("403 Domain not in allowlist.")
    assert "does not connect to other.test:443: Domain not in allowlist." in said
    assert blocked == [("other.test", "not_allowed")] * 2


async def test_this_command_s_own_servers_are_reached_without_it():
    body = (
        "const s = require('http').createServer((q, a) => a.end('own')).listen(0, '127.0.0.1'); "
        "await new Promise(r => s.on('listening', r)); "
        "const r = await fetch(`http://127.0.0.1:${s.address().port}/`); "
        "console.log(await r.text()); s.close(); s.closeAllConnections();"
    )
    async with open_proxy_testbed() as testbed:
        (testbed.home / "work/own.js").write_text(f"(async () => {{ {body} }})()")
        code, said, blocked = await testbed.run("node own.js", local("index.test"))
    assert (code, said.strip(), blocked) == (0, "own", [])


async def test_options_that_a_person_set_stay_and_programs_without_fetch_are_as_before():
    async with open_proxy_testbed() as testbed:
        (testbed.home / "work/mine.cjs").write_text("globalThis.mine = 'mine'")
        script = (
            'echo $NODE_OPTIONS; NODE_OPTIONS="--require ./mine.cjs $NODE_OPTIONS" '
            "node -p 'mine + typeof fetch + Object.keys(process.moduleLoadList).length > 0'; "
            "node --test-only -e '1'; echo $?"
        )
        code, said, _ = await testbed.run(script, local("index.test"))
    assert code == 0
    assert said.splitlines()[0].endswith('node_fetch.cjs"')
    assert said.splitlines()[-1] == "0"
