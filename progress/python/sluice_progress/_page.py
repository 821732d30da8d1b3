"""One page: a file of 4096 bytes that is made whole, locked, renamed into place and then written through a mapping."""

import errno
import fcntl
import itertools
import mmap
import os
import struct
import threading
import time
from typing import Optional

from . import _layout as at

_COUNT = itertools.count()
_U64 = 0xFFFFFFFFFFFFFFFF


def _read(path: str) -> str:
    """A small file of the kernel; empty where there is none."""
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.read(4096)
    except OSError:
        return ""


def _start_ticks() -> int:
    """When this process started, in clock ticks: field 22 of its ``stat``."""
    fields = _read("/proc/self/stat").rpartition(")")[2].split()
    return int(fields[19]) if len(fields) > 19 and fields[19].isdigit() else 0


def _boot_id() -> int:
    digits = _read("/proc/sys/kernel/random/boot_id").strip().replace("-", "")
    try:
        return int(digits[16:32], 16)
    except ValueError:
        return 0


def _host_clock() -> bool:
    """Is the monotonic clock the host's, and not of a time namespace with an offset?"""
    for line in _read("/proc/self/timens_offsets").splitlines():
        if line.startswith("monotonic"):
            return all(field == "0" for field in line.split()[1:])
    return True


def _cut(text: str, most: int) -> bytes:
    """At most so many bytes, never half a character."""
    return text.encode("utf-8", "replace")[:most].decode("utf-8", "ignore").encode("utf-8")


class Page:
    """A page of this process. ``None`` from :meth:`create` wherever it cannot be."""

    def __init__(self, file: int, view: mmap.mmap, path: str) -> None:
        # The only descriptor of the file: closing another would drop the lock by which the daemon knows that we live.
        self._file = file
        self._view = view
        self._words = memoryview(view).cast("Q")
        self.path = path
        self._pid = os.getpid()
        self._lock = threading.Lock()

    @classmethod
    def create(
        cls,
        directory: str,
        *,
        job: str = "",
        producer: str = "python",
        comm_id: int = 0,
        rank: Optional[int] = None,
        nranks: int = 0,
        nnodes: int = 0,
        local_rank: Optional[int] = None,
        pattern: str = "unknown",
        role: str = "peer",
        iteration_bytes: int = 0,
        compute_ns: int = 0,
    ) -> "Optional[Page]":
        """Makes a page in ``directory``; ``None`` if that is absent, full or not writable."""
        start = _start_ticks()
        page = bytearray(at.PAGE_BYTES)
        now = time.monotonic_ns()
        number = lambda value: at.NO_RANK if value is None else int(value) & 0xFFFFFFFF  # noqa: E731
        try:
            pid_namespace = os.stat("/proc/self/ns/pid").st_ino & 0xFFFFFFFF
        except OSError:
            pid_namespace = 0
        head = (at.MAGIC, at.MAJOR, at.MINOR, at.PAGE_BYTES, at.PEERS_OFF, at.PEER_BYTES, at.PEER_CAP, now)
        struct.pack_into("<8sHHIIHHQ", page, 0, *head)
        whose = (_boot_id(), os.getpid(), pid_namespace, start, os.geteuid(), at.APPLICATION)
        struct.pack_into("<QIIQII", page, 0x020, *whose)
        for offset, text, most in ((at.JOB_ID, job, at.JOB_ID_BYTES), (at.PRODUCER, producer, at.PRODUCER_BYTES)):
            cut = _cut(text, most)
            page[offset : offset + len(cut)] = cut
        ranks = (number(rank), number(nranks), number(nnodes), number(local_rank))
        kind = (at.PATTERNS.get(pattern, 0), at.ROLES.get(role, 0))
        hints = (int(iteration_bytes) & _U64, int(compute_ns) & _U64)
        struct.pack_into("<QIIIIIIQQ", page, 0x0A0, int(comm_id) & _U64, *ranks, *kind, *hints)
        struct.pack_into("<Q", page, at.HEARTBEAT_NS, now)
        struct.pack_into("<Q", page, 0x198, at.HOST_MONOTONIC if _host_clock() else 0)
        struct.pack_into("<II", page, 0x1C8, at.NO_RANK, at.NO_RANK)
        # Names collide only between containers that share the directory.
        for count in itertools.islice(_COUNT, 8):
            stem = f"{os.geteuid()}.{os.getpid()}.{start}.{at.APPLICATION}.{count}"
            try:
                return cls._place(directory, stem, bytes(page))
            except FileExistsError:
                continue
            except (OSError, ValueError):
                return None
        return None

    @classmethod
    def _place(cls, directory: str, stem: str, page: bytes) -> "Page":
        temporary, path = (os.path.join(directory, stem + end) for end in (".tmp", ".sp1"))
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        file = os.open(temporary, flags, 0o600)
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0, os.SEEK_SET)
            # Written, not only mapped: a full file system must fail here, not by a signal later.
            if os.pwrite(file, page, 0) != at.PAGE_BYTES:
                raise OSError(errno.ENOSPC, "a short write")
            above = os.stat(directory)
            # A directory with a group of its own means: that group, the daemon's, reads.
            if above.st_mode & 0o2000 and os.fstat(file).st_gid == above.st_gid:
                os.fchmod(file, 0o640)
            view = mmap.mmap(file, at.PAGE_BYTES)
            # Whoever has this name made the temporary file before: while ours is there nobody else takes it.
            if os.path.lexists(path):
                raise FileExistsError(path)
            os.rename(temporary, path)
        except BaseException:
            os.unlink(temporary)
            os.close(file)
            raise
        return cls(file, view, path)

    def own(self) -> bool:
        """Does this process write here? False in a forked child and after :meth:`close`."""
        return self._pid == os.getpid()

    def _add(self, offset: int, value: int) -> None:
        self._words[offset >> 3] = (self._words[offset >> 3] + value) & _U64

    def _set(self, offset: int, value: int) -> None:
        self._words[offset >> 3] = value & _U64

    def _get(self, offset: int) -> int:
        return self._words[offset >> 3]

    def iteration(self) -> None:
        """An iteration begins: what is enqueued from here on belongs to it."""
        if not self.own():
            return
        with self._lock:
            now = time.monotonic_ns()
            # Odd while it is being written: a reader sees that it has to read again.
            sequence = self._get(at.ITER_SEQ) | 1
            self._set(at.ITER_SEQ, sequence)
            self._add(at.ITER, 1)
            self._set(at.ITER_BASE_BYTES, self._get(at.ENQ_BYTES))
            self._set(at.ITER_START_NS, now)
            self._set(at.ITER_SEQ, sequence + 1)
            self._set(at.HEARTBEAT_NS, now)

    def enqueue(self, nbytes: int, wire_bytes: Optional[int] = None) -> None:
        """``nbytes`` of tensors are about to be sent, of which ``wire_bytes`` leave this rank (all, if not given)."""
        if not self.own() or nbytes < 0:
            return
        with self._lock:
            now = time.monotonic_ns()
            self._add(at.ENQ_BYTES, int(nbytes))
            self._add(at.ENQ_OPS, 1)
            self._add(at.ENQ_WIRE_BYTES, int(nbytes if wire_bytes is None else max(wire_bytes, 0)))
            self._set(at.LAST_ENQ_NS, now)
            self._set(at.HEARTBEAT_NS, now)
            if self._get(at.STATE) < at.ENQUEUED:
                self._set(at.STATE, at.ENQUEUED)

    def net_begin(self) -> None:
        """An operation on the network begins."""
        if not self.own():
            return
        with self._lock:
            now = time.monotonic_ns()
            if self._get(at.INFLIGHT) == 0:
                self._add(at.PHASE_SEQ, 1)
                self._set(at.PHASE_BEGIN_NS, now)
            self._add(at.INFLIGHT, 1)
            self._set(at.LAST_NET_NS, now)
            self._set(at.HEARTBEAT_NS, now)
            self._set(at.STATE, at.ON_WIRE)

    def net_end(self) -> None:
        """An operation on the network ends; with the last one the phase is over."""
        if not self.own():
            return
        with self._lock:
            now = time.monotonic_ns()
            self._set(at.LAST_NET_NS, now)
            self._set(at.HEARTBEAT_NS, now)
            inflight = self._get(at.INFLIGHT)
            if inflight == 0:
                self._add(at.ERRORS, 1)
                return
            self._set(at.INFLIGHT, inflight - 1)
            if inflight == 1:
                self._set(at.PHASE_END_NS, now)
                self._set(at.STATE, at.COMPUTE)

    def sent(self, nbytes: int) -> None:
        """``nbytes`` were handed to sockets."""
        if self.own() and nbytes > 0:
            with self._lock:
                self._add(at.TX_BYTES, int(nbytes))

    def received(self, nbytes: int) -> None:
        """``nbytes`` were taken from sockets."""
        if self.own() and nbytes > 0:
            with self._lock:
                self._add(at.RX_BYTES, int(nbytes))

    def close(self) -> None:
        """Marks the page finished and removes it."""
        if not self.own():
            return
        with self._lock:
            self._set(at.STATE, at.FINISHED)
            self._pid = -1
            self._words.release()
            self._view.close()
            for act in (lambda: os.unlink(self.path), lambda: os.close(self._file)):
                try:
                    act()
                except OSError:
                    pass
