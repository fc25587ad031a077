"""Runs the program `delaybridge`, also as `python -m bridge`."""

import gc


def main() -> None:
    # As in `bridge.cli.commands.load`, which imports the rest.
    gc.disable()
    from bridge.cli.app import app

    gc.freeze()
    gc.enable()
    app()


if __name__ == "__main__":
    main()
