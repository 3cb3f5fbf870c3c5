"""`python -m btbench`, and the console script: nothing else is imported before Ctrl-C is taken care of."""

import os


def main() -> None:
    """Run the command line and exit; with status 130 where Ctrl-C comes while it is still being imported."""
    try:
        from btbench.cli import app
    except KeyboardInterrupt:
        os.write(2, b"Error: interrupted\n")
        os._exit(130)  # as shells say it: 128 + SIGINT
    app.main()


if __name__ == "__main__":
    main()
