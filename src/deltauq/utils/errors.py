"""The error for input that cannot be used."""


class InputError(ValueError):
    """Data, files or parameter values of the user cannot be used; the message says why and what to do.

    The command line prints the message of this error only. Any other error is a bug and keeps its traceback.
    """
