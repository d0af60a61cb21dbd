"""Carries the kinesin program of one platform, in bin."""

import os
import pathlib
import sys


def path() -> pathlib.Path:
    """Returns the path of the program."""
    return pathlib.Path(__file__).parent / "bin" / "kinesin"


def main() -> None:
    """Becomes the program."""
    os.execv(path(), ["kinesin", *sys.argv[1:]])
