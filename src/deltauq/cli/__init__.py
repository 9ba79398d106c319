"""The command line, one module per command."""

from deltauq.cli.main import main

__all__ = ["main"]
