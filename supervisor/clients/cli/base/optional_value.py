"""Options whose value may be left out, and stands after `=` else: the next word is never taken."""

from collections.abc import Collection, Iterator, Sequence

import click

from .lazy_commands import ColorCommand


def with_default(
    words: Sequence[str], option: str, value: str, valued: Collection[str]
) -> Iterator[str]:
    """The words, with `option=value` in place of a bare `option`. Pure.

    `valued`: options that take the next word, whatever that is. Words after `--` stay.
    """
    rest = iter(words)
    for word in rest:
        if word == "--":
            yield word
            yield from rest
        elif word in valued and word != option:
            yield word
            if (taken := next(rest, None)) is not None:
                yield taken
        else:
            yield f"{option}={value}" if word == option else word


class IsolatingCommand(ColorCommand):
    """A command with `--isolate`, which alone means `--isolate=run`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        options = [one for one in self.get_params(ctx) if isinstance(one, click.Option)]
        valued = {name for one in options if not one.is_flag for name in one.opts}
        return super().parse_args(ctx, [*with_default(args, "--isolate", "run", valued)])
