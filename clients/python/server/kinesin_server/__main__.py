"""Becomes the program: python -m kinesin_server."""

from . import main

main()
