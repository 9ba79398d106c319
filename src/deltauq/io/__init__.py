"""Models that leave the process: written and read without ever running code from a file."""

from deltauq.io.files import load

__all__ = ["load"]
