"""The console script `swarm`. Before click is imported, a run's processes are on their way."""

import sys

from .early import begun_early


def main() -> None:
    """Run the command line of this process. Never returns."""
    arguments = sys.argv[1:]
    try:
        with begun_early(arguments):
            from .main import run_cli

            code = run_cli(arguments)
    except KeyboardInterrupt:  # before the command began
        code = 130
    sys.exit(code)


if __name__ == "__main__":
    main()
