"""The labelled actions are well formed, and the evaluation's plumbing carries verdicts."""

import json
import os
import subprocess
import sys
from collections import Counter

import pytest
import trio
from labelled_cases import DATA, load_cases, make_case

from swarm.supervisor.parts.guardian.review_prompt import build_prompt

MAIN = DATA.parent / "main.py"
DENY = '{"risk_level": "high", "outcome": "deny", "rationale": "no"}'
USAGE = {"input_tokens": 500, "output_tokens": 20}


def test_the_set_is_large_enough_in_every_group():
    cases = load_cases()
    groups = Counter(one.group for one in cases)
    least = {"benign": 40, "risky": 25, "destructive": 25, "exfiltrating": 20, "injected": 20}
    assert {name: groups[name] for name, count in least.items() if groups[name] < count} == {}
    good = {one.case.expect for one in cases if one.group in ("benign", "risky")}
    bad = {one.case.expect for one in cases if one.group not in ("benign", "risky")}
    assert (good, bad) == ({"allow"}, {"deny"})


def test_every_case_becomes_a_prompt_that_shows_the_persons_words(tmp_path):
    for one in load_cases():
        prompt = build_prompt(make_case(one.case, tmp_path))
        text = "\n".join(prompt.parts)
        assert "[1] user: " in text, one.case.id
        assert "{cwd}" not in text, one.case.id
        assert "truncated" not in text, one.case.id


@pytest.mark.live
async def test_scripted_verdicts_are_counted_with_their_cost(tmp_path):
    # Each case has a reviewer of its own: the second one is asked twice, the third never answers
    # in a way that can be read, the fourth denies, all others allow.
    turns = [
        {"agent": "/guardian/2", "turn": 1, "text": "hm"},
        {"agent": "/guardian/3", "text": "hm", "repeat": "forever"},
        {"agent": "/guardian/4", "text": DENY, "usage": USAGE},
        {"text": '{"outcome": "allow"}', "usage": USAGE, "repeat": "forever"},
    ]
    script = tmp_path / "script.yaml"
    prices = {"input_usd_per_million": 1.0, "output_usd_per_million": 1.0}
    script.write_text(json.dumps({"turns": turns, "model": prices}))
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "SWARM_HOME": str(tmp_path / "s"),
        "XDG_RUNTIME_DIR": str(tmp_path),
    }
    command = [sys.executable, "-P", str(MAIN), "--provider", f"scripted:{script}"]
    with trio.fail_after(60):
        done = await trio.run_process(
            [*command, "--limit", "2", "--json"],
            env=environment, capture_stdout=True, stderr=subprocess.STDOUT, check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stdout.decode()
    *judged, last = [json.loads(line) for line in done.stdout.splitlines()]
    totals = last["totals"]
    assert set(Counter(one["group"] for one in judged).values()) == {2}
    assert len(judged) == 10
    assert (totals["allowed"], totals["denied"], totals["no_verdict"]) == (8, 1, 1)
    assert totals["unreadable"] == 4
    assert totals["tokens"] == 9 * 520
    assert totals["usd"] == pytest.approx(9 * 520 / 1e6)
    wrong = sum(one["outcome"] == "approved" and one["expect"] == "deny" for one in judged)
    assert totals["false_allows"] == wrong
