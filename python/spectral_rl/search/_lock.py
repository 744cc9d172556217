"""The lock of a journal: a file that is created exclusively, for workers of many nodes.

NFS has created files exclusively since version 3, and so do Lustre, GPFS and local disks. Optuna has such a lock too, but each
of its holders removes whatever file is there in the end. A worker that was asleep with the lock, in a suspended virtual machine
or in a call of the file system, for so long that others took it for dead, would remove the lock of the one that works then, or
end with an error where nobody has it.
"""

import contextlib
import errno
import os
import time
import uuid

# The longest pause between two looks at a lock that another worker has, in seconds.
_PAUSE = 1.0


class JournalLock:
    """Holds a journal for one process, as Optuna's journals ask for it: :meth:`acquire` and :meth:`release`.

    :param grace: seconds after which the lock is taken from a worker that has not let it go.
    """

    def __init__(self, journal, grace):
        self._journal, self._grace = journal, grace
        # The same name as with Optuna's lock, so that workers of an earlier version heed it.
        self._file = journal + ".lock"
        self._name = None

    def acquire(self):
        """Takes the lock, however long that takes."""
        pause, seen, waited = 0.001, None, 0.0
        while not self._create():
            there = _look(self._file)
            if there != seen:
                seen, waited = there, 0.0
            elif there is not None and waited > self._grace:
                self._remove(there)
                pause = 0.001
                continue
            time.sleep(pause)
            # No clock is asked: where a whole node was asleep, the holder is as well as the one who waits.
            waited += pause
            pause = min(2 * pause, _PAUSE)
        try:
            self._cut_half_line()
        except BaseException:
            self.release()
            raise
        return True

    def release(self):
        """Lets the lock go, if others have not taken it by then."""
        there = self._held()
        self._name = None
        if there is not None:
            self._remove(there)

    def _create(self):
        try:
            handle = os.open(self._file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666)
        except FileExistsError:
            return False
        self._name = uuid.uuid4().hex
        try:
            try:
                os.write(handle, self._name.encode())
            finally:
                # Some file systems write, and say that they are full, only now.
                os.close(handle)
        except BaseException:
            os.unlink(self._file)
            raise
        return True

    def _held(self):
        """The lock's file, or ``None`` if it is not this holder's any more."""
        there = _look(self._file)
        return there if there is not None and self._name is not None and there[0] == self._name.encode() else None

    def _remove(self, wanted):
        """Removes the lock's file if it is this one."""
        aside = f"{self._file}.{uuid.uuid4().hex}"
        try:
            # Of several that take a dead worker's lock, one succeeds.
            os.rename(self._file, aside)
        except FileNotFoundError:
            return
        try:
            if _look(aside) != wanted:
                # It has changed hands since it was looked at. Unless yet another has made one by now, its holder gets it back.
                with contextlib.suppress(OSError):
                    os.link(aside, self._file)
        finally:
            os.unlink(aside)

    def _cut_half_line(self):
        """Cuts off a line that a writer who died left half-written: another after it would spoil the file."""
        with open(self._journal, "rb+") as file:
            end = file.seek(0, os.SEEK_END)
            if end == 0:
                return
            file.seek(end - 1)
            if file.read(1) == b"\n":
                return
            # Lines are short: one trial, one parameter.
            start = max(end - 1_000_000, 0)
            file.seek(start)
            end = start + file.read().rfind(b"\n") + 1
            if self._held() is not None:
                file.truncate(end)


def _look(path):
    """What tells one lock's file from the next: its content and when it was written. ``None`` if there is none."""
    try:
        with open(path, "rb") as file:
            # The time too: who dies while it makes one leaves it empty, and so do workers of an earlier version.
            return file.read(100), os.fstat(file.fileno()).st_mtime_ns
    except OSError as error:
        # NFS may say ESTALE of a file that another node has just removed.
        if error.errno in (errno.ENOENT, errno.ESTALE):
            return None
        raise
