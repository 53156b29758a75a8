"""gpg and ssh-agent work inside the sandbox, with keys that are made there."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from support.users import USERS
from swarm.worker.sandbox.sandbox_probe import probe_sandbox

FACTS = probe_sandbox()
_BWRAP = pytest.mark.skipif(not FACTS.notifies, reason="nobody can look")
_LANDLOCK = pytest.mark.skipif(not (FACTS.landlock_abi and FACTS.answers), reason="no broker")
# Both agents guard their memory, where the broker of Landlock's roots reads what is asked for.
PLACES = [
    pytest.param("bwrap", "$TMPDIR", id="bwrap-tmp", marks=_BWRAP),
    pytest.param("bwrap", "$PWD", id="bwrap-root", marks=_BWRAP),
    pytest.param("landlock", "$TMPDIR", id="landlock-tmp", marks=_LANDLOCK),
]
PLAYS = {
    "gpg": """
        mkdir -m 700 "$PLACE/keys"; export GNUPGHOME="$PLACE/keys"
        gpg --batch --quiet --passphrase '' --quick-generate-key a@b ed25519 sign never
        echo words >"$PLACE/words"
        gpg --batch --quiet --detach-sign "$PLACE/words"
        gpg --batch --quiet --verify "$PLACE/words.sig" "$PLACE/words"
        gpgconf --kill gpg-agent
    """,
    "ssh-agent": """
        mkdir -m 700 "$PLACE/keys"; eval $(ssh-agent -a "$PLACE/keys/agent") >&2
        ssh-keygen -q -t ed25519 -N '' -f "$PLACE/keys/key"
        ssh-add -q "$PLACE/keys/key"; ssh-add -l; rm "$PLACE/keys/key"
        echo words | ssh-keygen -Y sign -n file -f "$PLACE/keys/key.pub" | grep -q SIGNATURE
        ssh-agent -k
    """,
}


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize(("stack", "place"), PLACES)
@pytest.mark.parametrize("name", PLAYS)
def test_a_key_is_made_and_signs(name, stack, place, user):
    if shutil.which(name, path="/usr/bin:/bin") is None:
        pytest.skip(f"{name} is not installed")
    work = Path(tempfile.mkdtemp(prefix="swarm-keys-", dir="/var/tmp"))
    os.chown(work, user, -1)
    words = [sys.executable, "-P", "-m", "swarm.worker.programs.sandbox_command", "-s"]
    words += ["workspace-write", "--stack", stack, "-C", str(work), "--", "/bin/bash", "-ec"]
    more = {} if user == os.geteuid() else {"user": user, "group": user, "extra_groups": ()}
    try:
        done = subprocess.run(
            [*words, f'PLACE="{place}"; export HOME="$PLACE"; {PLAYS[name]}'],
            env={"PATH": "/usr/bin:/bin"}, stdin=subprocess.DEVNULL, capture_output=True,
            text=True, timeout=60, check=False, **more,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
    finally:
        shutil.rmtree(work)
