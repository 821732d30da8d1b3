"""The module alone: ``python -m unittest discover -s tests`` in ``progress/python``, without any package."""

import os
import signal
import struct
import sys
import tempfile
import threading
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))

import sluice_progress  # noqa: E402
from sluice_progress import Page, Progress  # noqa: E402
from sluice_progress import _layout as at  # noqa: E402


def pages(directory):
    return sorted(name for name in os.listdir(directory) if name.endswith(".sp1"))


def word(page, offset):
    # Through the mapping: opening the file again would drop its lock.
    return page._words[offset >> 3]


class Base(unittest.TestCase):
    def setUp(self):
        self.saved = dict(os.environ)
        for name in ("SLUICE_DISABLE", "SLUICE_SHM_DIR", "SLUICE_JOB_ID", "SLUICE_ITER_BYTES", "RANK", "WORLD_SIZE"):
            os.environ.pop(name, None)
        self.holder = tempfile.TemporaryDirectory()
        self.directory = self.holder.name

    def tearDown(self):
        os.environ.clear()
        os.environ.update(self.saved)
        self.holder.cleanup()


class Silence(Base):
    def test_absent_full_and_strange_directories(self):
        link = os.path.join(self.directory, "loop")
        os.symlink(link, link)
        fifo = os.path.join(self.directory, "fifo")
        os.mkfifo(fifo)
        for directory in (os.path.join(self.directory, "absent"), link, fifo, "/proc", "/dev/null", "a\0b"):
            with Progress(directory=directory) as progress:
                progress.step()
                progress.enqueue(10)
                with progress.sending():
                    pass
                self.assertIsNone(progress.page())

    def test_the_switch_and_the_directory_of_the_environment(self):
        os.environ["SLUICE_SHM_DIR"] = self.directory
        os.environ["SLUICE_DISABLE"] = "1"
        with Progress() as progress, Progress(directory=self.directory) as other:
            self.assertIsNone(progress.page() or other.page())
        del os.environ["SLUICE_DISABLE"]
        with Progress():
            self.assertEqual(len(pages(self.directory)), 1)

    def test_an_absent_directory_is_not_looked_for_at_every_call(self):
        late = os.path.join(self.directory, "late")
        progress = Progress(directory=late)
        progress.step()
        os.mkdir(late)
        progress.step()
        self.assertEqual(pages(late), [])
        progress._next_look = 0
        progress.step()
        self.assertEqual(len(pages(late)), 1)
        progress.close()


class Publishing(Base):
    def test_a_page_counts_and_goes(self):
        with Progress(directory=self.directory, rank=3, pattern="ring") as progress:
            page = progress.page()
            progress.step()
            progress.enqueue(1000, 1500)
            self.assertEqual(word(page, at.STATE), at.ENQUEUED)
            with progress.sending(), progress.sending():
                self.assertEqual((word(page, at.STATE), word(page, at.INFLIGHT)), (at.ON_WIRE, 2))
            progress.step()
            self.assertEqual((word(page, at.ITER), word(page, at.ITER_BASE_BYTES)), (2, 1000))
            self.assertEqual((word(page, at.ENQ_WIRE_BYTES), word(page, at.PHASE_SEQ)), (1500, 1))
            self.assertEqual((word(page, at.STATE), word(page, at.ITER_SEQ) % 2), (at.COMPUTE, 0))
            self.assertEqual(os.listdir(self.directory), pages(self.directory), "nothing temporary stays")
            page.net_end()
            self.assertEqual(word(page, at.ERRORS), 1)
        self.assertEqual(os.listdir(self.directory), [])
        progress.step()
        self.assertEqual(os.listdir(self.directory), [])

    def test_an_error_in_the_block_is_the_programs_own(self):
        with self.assertRaises(KeyError):
            with Progress(directory=self.directory) as progress:
                page = progress.page()
                try:
                    with progress.sending():
                        raise KeyError("x")
                finally:
                    self.assertEqual(word(page, at.INFLIGHT), 0)

    def test_threads_lose_nothing(self):
        with Progress(directory=self.directory) as progress:
            threads = [
                threading.Thread(target=lambda: [progress.enqueue(3) for _ in range(500)]) for _ in range(4)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertEqual((word(progress.page(), at.ENQ_BYTES), word(progress.page(), at.ENQ_OPS)), (6000, 2000))

    def test_a_forked_child_is_silent_and_the_plain_step_has_its_own_page(self):
        os.environ["SLUICE_SHM_DIR"] = self.directory
        progress = Progress()
        progress.enqueue(1)
        sluice_progress.step()
        child = os.fork()
        if child == 0:
            progress.enqueue(1000)
            progress.close()
            sluice_progress.step()
            os._exit(len(pages(self.directory)))
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 3)
        self.assertEqual(word(progress.page(), at.ENQ_BYTES), 1)
        progress.close()

    def test_text_is_cut_between_characters(self):
        page = Page.create(self.directory, job="ä" * 40 + "x", producer="p" * 99)
        held = bytes(page._view[at.JOB_ID : at.JOB_ID + at.JOB_ID_BYTES])
        self.assertEqual(held.decode(), "ä" * 32)
        self.assertEqual(bytes(page._view[at.PRODUCER : at.PRODUCER + 40]), b"p" * 32 + bytes(8))
        self.assertEqual(struct.unpack_from("<I", page._view, 0x0A8)[0], at.NO_RANK)
        page.close()


if __name__ == "__main__":
    signal.alarm(60)
    unittest.main()
