"""What to tell people while a server reads a prompt, so that a slow model is not silent. Pure.

llama.cpp says how far it is; of others the tokens that were sent and the seconds are known.
"""

from swarm.mailbox.protocol.values.base import Value

FIRST_NOTICE_S = 10.0  # of silence; doubled for each further notice
_BYTES_PER_TOKEN = 4
_LEAST_TOKENS = 256  # of a prompt whose reading is told


class PromptProgress(Value):
    """llama.cpp's `prompt_progress`; `cache` tokens were known before."""

    total: int = 0
    cache: int = 0
    processed: int = 0
    time_ms: float = 0.0


def describe_progress(progress: PromptProgress) -> str:
    """`reading the prompt: 1.0k of 1.7k tokens, 70/s`; "" where there is nothing to tell."""
    read, new = progress.processed - progress.cache, progress.total - progress.cache
    if new < _LEAST_TOKENS or not 0 < read < new:
        return ""
    rate = f", {read * 1000 / progress.time_ms:.0f}/s" if progress.time_ms > 0 else ""
    done, all_of_it = short_count(progress.processed), short_count(progress.total)
    return f"reading the prompt: {done} of {all_of_it} tokens{rate}"


def describe_silence(sent_bytes: int, waited_s: float) -> str:
    """What is known of a server that has not said anything yet."""
    tokens = short_count(max(1, sent_bytes // _BYTES_PER_TOKEN))
    return f"about {tokens} tokens sent; no word of the model for {waited_s:.0f} s"


def short_count(tokens: int) -> str:
    """`950`, `1.7k`, `23k`."""
    if tokens < 1_000:
        return str(tokens)
    return f"{tokens / 1000:.1f}k" if tokens < 10_000 else f"{tokens / 1000:.0f}k"
