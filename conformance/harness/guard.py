"""Runs one command and makes sure it never outlives the test run: `python guard.py COMMAND...`.

The guard reads its standard input, whose other end the test run holds. When that end closes (the run is over, or was
killed by whatever
signal), the command's whole process group is asked to stop, then killed. Standard library only, so that it starts in
milliseconds.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading

GRACE_S = 2.0
PR_SET_PDEATHSIG = 1


def die_with_parent() -> None:
    """Linux: the kernel kills the command even when the guard itself is killed. Elsewhere the guard alone has to do."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def stop(child: subprocess.Popen[bytes]) -> None:
    """Ask the command's process group to stop; kill it when it has not after `GRACE_S`."""
    for number, wait_s in ((signal.SIGTERM, GRACE_S), (signal.SIGKILL, GRACE_S)):
        try:
            os.killpg(child.pid, number)
        except ProcessLookupError:
            return
        try:
            child.wait(wait_s)
        except subprocess.TimeoutExpired:
            continue
        return


def main() -> int:
    """Run the command named by the arguments; returns its exit status."""
    # Ctrl-C in a terminal goes to every process of its group: the test run decides what stops, and when.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        child = subprocess.Popen(  # noqa: S603 - running the given command is what a guard is for
            sys.argv[1:],
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=die_with_parent,  # noqa: PLW1509 - no other thread exists yet
        )
    except OSError as problem:
        print(f"cannot run {sys.argv[1]}: {problem.strerror}", file=sys.stderr)  # noqa: T201 - the log of the command
        return 127

    def watch() -> None:
        while os.read(0, 4096):
            pass
        stop(child)

    threading.Thread(target=watch, daemon=True).start()
    status = child.wait()
    # What the command left behind in its group goes with it.
    stop(child)
    return status if status >= 0 else 128 - status


if __name__ == "__main__":
    sys.exit(main())
