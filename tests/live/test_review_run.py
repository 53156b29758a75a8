"""`swarm review`: a run that only reads; findings as text and as data; what cannot be reviewed."""

import json
import subprocess

import pytest

from swarm.mailbox.protocol.records import ContextRecorded, InputPosted, MailPosted
from swarm.mailbox.protocol.review import EnteredReviewMode, ExitedReviewMode
from swarm.mailbox.protocol.values.limits import ReadOnly

pytestmark = pytest.mark.live
ANSWER = {
    "findings": [
        {
            "title": "[P1] It is empty",
            "body": "Nothing is there.",
            "confidence_score": 0.8,
            "priority": 1,
            "code_location": {
                "absolute_file_path": "/w/new",
                "line_range": {"start": 1, "end": 1},
            },
        }
    ],
    "overall_correctness": "patch is incorrect",
    "overall_explanation": "A file is empty.",
    "overall_confidence_score": 0.8,
}


def command(text):
    return {"calls": [{"name": "exec_command", "arguments": {"cmd": text}}]}


@pytest.fixture
def repo(rig):
    subprocess.run(["git", "init", "-q"], cwd=rig.work, check=True)
    (rig.work / "new").write_text("")
    return rig


async def review(rig, provider, *words):
    started = await rig.start("review", "--provider", provider, *words)
    return await started.wait_end()


async def test_findings_are_shown_as_text_and_told_as_data_and_nothing_is_written(repo):
    (repo.home / "config.toml").write_text('review_model = "careful"\n')
    provider = repo.script(command("touch made; git status"), {"text": json.dumps(ANSWER)})
    ended = await review(repo, provider, "--json")
    assert ended.code == 0, ended.err
    lines = [json.loads(line) for line in ended.out.splitlines()]
    by_type = {line["type"]: line for line in lines}
    assert by_type["review.entered"]["hint"] == "uncommitted changes"
    assert by_type["review.exited"]["output"] == ANSWER
    assert lines[-1]["result"].startswith("A file is empty.\n\nVerdict: patch is incorrect")
    assert "- [P1] It is empty — /w/new:1\n  Nothing is there." in lines[-1]["result"]
    assert not (repo.work / "made").exists()
    (spawned,) = repo.lives()
    assert isinstance(spawned.limits.sandbox, ReadOnly)
    assert (spawned.role, spawned.model) == ("code-reviewer", "careful")
    assert not repo.bodies(ContextRecorded)
    (entered,), (exited,) = repo.bodies(EnteredReviewMode), repo.bodies(ExitedReviewMode)
    assert (entered.target, exited.output.findings[0].priority) == ("uncommitted", 1)


async def test_an_answer_of_another_form_is_asked_for_again_and_then_kept_as_words(repo):
    provider = repo.script({"text": "Looks fine."}, {"text": "Really, it does."})
    ended = await review(repo, provider, "--plain")
    assert (ended.code, ended.out) == (0, "Really, it does.\n")
    assert len(repo.bodies(InputPosted)) == 1
    (exited,) = repo.bodies(ExitedReviewMode)
    assert exited.output.overall_explanation == "Really, it does."


async def test_a_review_that_fails_leaves_review_mode_without_findings(repo):
    ended = await review(repo, repo.script(), "--plain")
    assert ended.code != 0
    assert [body.output for body in repo.bodies(ExitedReviewMode)] == [None]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("--base", "nowhere"), "no branch or commit 'nowhere'"),
        (("--commit", "HEAD"), "no commit 'HEAD'"),
        (("--sandbox", "workspace-write"), "a review is read-only"),
        (("-p", " "), "the prompt is empty"),
    ],
)
async def test_what_cannot_be_reviewed_is_said_and_starts_nothing(repo, words, complaint):
    ended = await review(repo, repo.script(), *words)
    assert ended.code == 2
    assert complaint in ended.err
    assert not repo.has_run


async def test_a_folder_that_is_no_repository_is_said(rig):
    ended = await review(rig, rig.script())
    assert (ended.code, rig.has_run) == (2, False)
    assert "no git repository here" in ended.err


async def test_within_a_run_a_child_reviews_and_its_findings_come_to_the_agent(repo):
    (repo.home / "config.toml").write_text('review_model = "careful"\n')
    root, child = {"agent": "/root"}, {"agent": "/root/review_1"}
    provider = repo.script(
        {"delay_s": 3, **root, **command("true")},
        {**child, **command("git status")},
        {**child, "text": json.dumps(ANSWER)},
        {**root, "repeat": "forever", "text": "seen: {last_user}", "delay_s": 1},
    )
    running = await repo.run(provider, "--reviewer", "nobody")
    await repo.wait(lambda: repo.has_run and repo.lives())
    started = await repo.start("review", "--run", repo.run_id, "--uncommitted")
    ended = await started.wait_end()
    assert ended.code == 0, ended.err
    assert "/root/review_1 reviews: uncommitted changes" in ended.err
    assert (await running.wait_end()).code == 0
    (entered,), (exited,) = repo.bodies(EnteredReviewMode), repo.bodies(ExitedReviewMode)
    assert (entered.reviewer, exited.reviewer) == ("/root/review_1", "/root/review_1")
    assert exited.output.findings[0].title == "[P1] It is empty"
    (child_life,) = repo.lives("/root/review_1")
    assert child_life.model == "careful"
    assert repo.lives("/root")[0].model != "careful"
    assert isinstance(child_life.limits.sandbox, ReadOnly)
    mails = [body.mail for body in repo.bodies(MailPosted) if body.mail.recipient == "/root"]
    assert "It is empty" in mails[0].content
