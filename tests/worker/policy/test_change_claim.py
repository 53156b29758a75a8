"""That a task asks for a change is shown by its own words; a greeting and a question hold none."""

import pytest

from swarm.worker.policy.change_claim import TaskClaim, find_claim_fault, only_asks


@pytest.mark.parametrize(
    "task",
    [
        "hi", "Hi!", "hello there", "Good morning, team", "thanks", "", "?",
        "What does this project do?", "what does this project do", "Hi! What is in slug.py?",
        "Which tests fail? Why?", "Is it typed?", "How do I run the tests", "Do the tests pass?",
    ],
)  # fmt: skip
def test_a_greeting_or_a_question_asks_for_no_change_whatever_the_model_says(task):
    assert only_asks(task)
    assert find_claim_fault(TaskClaim(asks_for="change", words=task), task) != ""


@pytest.mark.parametrize(
    ("task", "words"),
    [
        ("Rename slugify to make_slug", "Rename slugify to make_slug"),
        ("Can you fix the test in slug.py?", "fix the test"),
        ("How about renaming slugify?", "renaming slugify"),
        ("What is wrong here? Fix it.", "Fix it."),
        ("What is wrong in slug.py, and then correct it", "correct it"),
        ("Do the renaming in src/slug.py", "do the renaming"),
        ("hi, please add a line to notes", "add  a LINE"),
        ("Füge eine Zeile hinzu", "füge eine Zeile hinzu"),
    ],
)
def test_words_of_a_task_that_asks_for_a_change_are_accepted(task, words):
    assert find_claim_fault(TaskClaim(asks_for="change", words=words), task) == ""


@pytest.mark.parametrize(
    "words", ["", "Rename", "rename rename", "delete the file", "<words of the task>", "Change it"]
)
def test_words_that_are_no_words_of_the_task_are_refused(words):
    task = "Rename slugify to make_slug"
    assert find_claim_fault(TaskClaim(asks_for="change", words=words), task) != ""
