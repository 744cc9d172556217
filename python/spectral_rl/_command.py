"""The `spectral` command. It imports nothing but the native module, so that it starts at once."""

# Not `signal`, which makes enumerations of its names: that takes longer than the whole command.
import _signal
import sys


def main():
    """Runs the command with this process's arguments and exits with its code."""
    from spectral_rl._native import run_command

    # Python's handler only makes a note for the interpreter, which does not run before the command has ended.
    if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
        _signal.signal(_signal.SIGINT, _signal.SIG_DFL)
    sys.exit(run_command(["spectral", *sys.argv[1:]]))
