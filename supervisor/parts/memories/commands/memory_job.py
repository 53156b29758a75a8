"""The memory job: one process of a person at a time, started by a run's end or by a command.

Usage: python -P -m swarm.supervisor.parts.memories.commands.memory_job, with a `JobOrder` as JSON
on stdin.
"""

import os
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import partial

import msgspec

from swarm.mailbox.base.after_fork import disable_core_dumps
from swarm.mailbox.base.errors import SwarmError
from swarm.mailbox.base.foreign_failures import explain_failure
from swarm.mailbox.base.key_wiping import is_credential_name
from swarm.mailbox.base.redact import Redactor
from swarm.mailbox.parts.memories.memory_messages import MemorySettings

from ....base.safe_text import clean_line
from ....runs.paths import find_user_paths
from ..memory_database import using_database
from ..memory_paths import MemoriesBusy, MemoryPaths
from ..memory_start import JobOrder
from ..memory_store import MemoryStore
from ..memory_work import MemoryWork, ModelChoice, WorkDone
from ..model_extraction import Asked
from .memory_question import Question

_QUESTION = (sys.executable, "-P", "-m", "swarm.supervisor.parts.memories.commands.memory_question")
_QUESTION_LIMIT_S = 900.0
_LOWEST = 19
_IDLE_CLASS = 3 << 13  # of ioprio_set
_IOPRIO_SET = {"x86_64": 251, "aarch64": 30}


def work(
    settings: MemorySettings, *, wait_s: float, keys: Mapping[str, str] | None = None
) -> WorkDone:
    """Do all that there is to do now. Raises MemoriesBusy, SwarmError.

    `keys`: of providers, by variable, beside those of the environment.
    """
    environment = dict(os.environ)
    places = find_user_paths(environment)
    paths = MemoryPaths(places)
    keys = dict(keys or {})
    named = (text for name, text in environment.items() if is_credential_name(name))
    secrets = (*keys.values(), *named)
    with paths.writing(wait_s=wait_s), using_database(paths.database) as base:
        job = MemoryWork(
            MemoryStore(base), places, settings, partial(ask_model, keys),
            redactor=Redactor(secrets),
        )  # fmt: skip
        return job.run()


def ask_model(  # noqa: PLR0917 - what a question consists of
    keys: dict[str, str],
    choice: ModelChoice,
    prompt: str,
    schema: dict[str, object],
    tokens: int,
    usd: float,
) -> Asked:
    """Ask in a run of its own, which has no tools, no network and no project."""
    question = Question(
        prompt=prompt, schema=schema, provider=choice.provider, model=choice.model,
        budget_tokens=tokens, budget_usd=usd, keys=keys,
    )  # fmt: skip
    try:
        done = subprocess.run(
            _QUESTION, input=msgspec.json.encode(question), capture_output=True,
            timeout=_QUESTION_LIMIT_S, check=False,
        )  # fmt: skip
        return msgspec.json.decode(done.stdout, type=Asked)
    except (OSError, subprocess.TimeoutExpired, msgspec.DecodeError) as error:
        return Asked(failure=f"the model could not be asked: {error}")


def describe(done: WorkDone) -> str:
    """One line on what was done."""
    counts = (
        (done.extracted, "run remembered" if done.extracted == 1 else "runs remembered"),
        (done.left_out, "left out"),
        (done.failed, "failed"),
        (done.consolidated, "project written" if done.consolidated == 1 else "projects written"),
        (done.pruned, "pruned"),
    )
    text = ", ".join(f"{number:g} {what}" for number, what in counts if number)
    cost = f"; {done.tokens:,} tokens, ${done.usd:.4f}" if done.tokens else ""
    why = clean_line(done.model_failure)
    return (text or "nothing to do") + cost + (f"; a model gave nothing: {why}" if why else "")


def lower_priority() -> None:
    """Yield processor and disk to everything else."""
    import ctypes
    import platform

    with suppress(OSError):
        os.nice(_LOWEST)
    if (number := _IOPRIO_SET.get(platform.machine())) is not None:
        ctypes.CDLL(None).syscall(number, 1, 0, _IDLE_CLASS)


def main() -> int:
    disable_core_dumps()  # before there are keys in this process
    lower_priority()
    began = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    try:
        order = msgspec.json.decode(sys.stdin.buffer.read(), type=JobOrder)
        text, code = describe(work(order.settings, wait_s=0.0, keys=order.keys)), 0
    except MemoriesBusy:
        return 0  # the one that works takes this run as well, or the next one does
    except (SwarmError, msgspec.DecodeError) as error:
        text, code = f"failed: {error}", 1
    except Exception as error:
        if (words := explain_failure(error)) is None:
            raise
        text, code = f"failed: {words}", 1
    sys.stdout.write(f"{began} {text}\n")
    return code


if __name__ == "__main__":
    raise SystemExit(main())
