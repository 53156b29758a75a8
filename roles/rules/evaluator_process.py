"""Evaluates rule files in a separate process with limited CPU time and memory.

Usage: python -P -m swarm.roles.rules.evaluator_process; stdin and stdout are msgpack
(`EvaluationRequest`, `EvaluationReply`). Started only by `evaluator_client`.
"""

import resource
import sys

import msgspec

from swarm.mailbox.protocol.base import Value

from .evaluate import CollectedRules, RuleFileBroken, evaluate

CPU_S = 2
MEMORY_BYTES = 512 << 20
MAX_ANSWER_BYTES = 4 << 20  # a loop can write more than a run should carry


class EvaluationRequest(Value):
    """The files' texts."""

    texts: tuple[str, ...]


class EvaluationReply(Value):
    """Either all rules, or the first broken file and the reason."""

    collected: CollectedRules = CollectedRules()
    broken_at: int | None = None
    what: str = ""
    line: int | None = None


decode_request = msgspec.msgpack.Decoder(EvaluationRequest).decode
decode_reply = msgspec.msgpack.Decoder(EvaluationReply).decode


def evaluate_files(order: EvaluationRequest) -> EvaluationReply:
    """Evaluate the files in order; stop at the first broken one."""
    collected = CollectedRules()
    for at, text in enumerate(order.texts):
        # Written at once, so that the parent knows the faulty file if this process dies.
        sys.stderr.write(f"{at}\n")
        sys.stderr.flush()
        try:
            collected = evaluate(text, at, collected)
        except RuleFileBroken as error:
            return EvaluationReply(broken_at=at, what=error.what[:2000], line=error.line)
    return EvaluationReply(collected=collected)


def main() -> int:
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    order = decode_request(sys.stdin.buffer.read())
    answer = msgspec.msgpack.encode(evaluate_files(order))
    if len(answer) > MAX_ANSWER_BYTES:
        last = len(order.texts) - 1
        reply = EvaluationReply(broken_at=last, what="the rules are too long, all together")
        answer = msgspec.msgpack.encode(reply)
    sys.stdout.buffer.write(answer)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
