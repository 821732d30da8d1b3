"""A page that may not be there yet: its directory is looked for at the first call and then at most every ten seconds."""

import contextlib
import os
import time
from types import TracebackType
from typing import Any, Iterator, List, Optional, Type

from ._page import Page

_RETRY_S = 10.0


def _directories() -> List[str]:
    """``SLUICE_SHM_DIR`` alone if it is set, else the daemon's directories. None with ``SLUICE_DISABLE=1``."""
    if os.environ.get("SLUICE_DISABLE") == "1":
        return []
    own = os.environ.get("SLUICE_SHM_DIR")
    return [own] if own else ["/run/sluice/progress", "/dev/shm/sluice"]


def _number(*names: str) -> Optional[int]:
    """The first of these variables that is a number."""
    for name in names:
        text = os.environ.get(name, "").strip()
        if text.isdigit():
            return int(text)
    return None


def _job() -> str:
    for name in ("SLUICE_JOB_ID", "SLURM_JOB_ID", "TORCHELASTIC_RUN_ID"):
        text = os.environ.get(name, "")
        # "none" is what torchrun calls every job that was given no name.
        if text not in ("", "none"):
            return text
    return ""


class Progress:
    """The progress of this process. Every call is silent, whatever there is or is not.

    ``job``, ``rank``, ``nranks`` and ``local_rank`` come from the environment (Sluice's own, torchrun, Open MPI, Slurm)
    where they are not given. ``pattern`` is one of ``ring``, ``tree``, ``ps``, ``p2p``, ``unknown``; ``role`` one of
    ``peer``, ``scheduler``, ``server``, ``worker``. ``iteration_bytes``: bytes that this rank enqueues per iteration,
    if they are known; ``directory``: where pages lie, instead of the daemon's place.
    """

    def __init__(
        self,
        *,
        job: str = "",
        rank: Optional[int] = None,
        nranks: Optional[int] = None,
        local_rank: Optional[int] = None,
        pattern: str = "unknown",
        role: str = "peer",
        iteration_bytes: Optional[int] = None,
        directory: Optional[str] = None,
        producer: str = "python",
        **more: Any,
    ) -> None:
        first = lambda given, *names: given if given is not None else _number(*names)  # noqa: E731
        self._facts = dict(
            more,
            job=job or _job(),
            rank=first(rank, "RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID"),
            nranks=first(nranks, "WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_NTASKS") or 0,
            local_rank=first(local_rank, "LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID"),
            pattern=pattern,
            role=role,
            iteration_bytes=first(iteration_bytes, "SLUICE_ITER_BYTES") or 0,
            producer=producer,
        )
        self._directories = [directory] if directory and _directories() else _directories()
        self._page: Optional[Page] = None
        self._next_look = 0.0
        self._closed = False

    def page(self) -> Optional[Page]:
        """The page, if there is one by now."""
        page = self._page
        if page is not None:
            return page if page.own() else None
        now = time.monotonic()
        if self._closed or now < self._next_look:
            return None
        self._next_look = now + _RETRY_S
        for directory in self._directories:
            self._page = Page.create(directory, **self._facts)
            if self._page is not None:
                break
        return self._page

    def step(self) -> None:
        """An iteration begins."""
        page = self.page()
        if page is not None:
            page.iteration()

    def enqueue(self, nbytes: int, wire_bytes: Optional[int] = None) -> None:
        """``nbytes`` of tensors are about to be sent, of which ``wire_bytes`` leave this rank (all, if not given).

        For a ring all-reduce of ``n`` ranks that is ``2 * (n - 1) / n * nbytes``.
        """
        page = self.page()
        if page is not None:
            page.enqueue(nbytes, wire_bytes)

    @contextlib.contextmanager
    def sending(self) -> Iterator[None]:
        """The network is busy for this program while the block runs."""
        page = self.page()
        if page is not None:
            page.net_begin()
        try:
            yield
        finally:
            if page is not None:
                page.net_end()

    def close(self) -> None:
        """Marks the page finished and removes it. Further calls do nothing."""
        self._closed = True
        if self._page is not None:
            self._page.close()

    def __enter__(self) -> "Progress":
        self.page()
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self.close()


_DEFAULT: Optional[Progress] = None
_DEFAULT_PID = 0


def step() -> None:
    """An iteration of this program begins. All there is to do for a program that knows nothing of its bytes."""
    global _DEFAULT, _DEFAULT_PID
    # A forked worker is a process of its own, with a page of its own.
    if _DEFAULT is None or _DEFAULT_PID != os.getpid():
        _DEFAULT, _DEFAULT_PID = Progress(), os.getpid()
    _DEFAULT.step()
