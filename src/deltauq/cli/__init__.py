"""The command line: parses, calls, prints. One file a command."""

from deltauq.cli.main import main

__all__ = ["main"]
