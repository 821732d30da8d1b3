"""Tell the network scheduler of this host what a training program is about to send.

One line in the training loop says where an iteration begins::

    import sluice_progress

    for batch in loader:
        sluice_progress.step()
        loss = train(batch)

With the bytes it is exact from the first iteration on::

    from sluice_progress import Progress

    with Progress(job="llama", pattern="ring") as progress:
        for batch in loader:
            progress.step()
            loss = forward(batch)
            progress.enqueue(gradient_bytes)
            with progress.sending():
                all_reduce(gradients)

Nothing here can disturb the program: without a daemon, without its directory, on a full file system and in a forked
child every call returns at once and does nothing. No thread, no timer, no output, no dependency.
"""

from ._page import Page
from ._progress import Progress, step

__all__ = ["Page", "Progress", "step"]
__version__ = "0.1.0"
