"""Many runs in virtual time, as many at a time as there are cores; a signal ends them all early."""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from contextlib import ExitStack
from multiprocessing import active_children
from typing import TypeVar

from testbed.chaos.interrupt import Interruptible

_LOOK_EVERY_S = 0.3
_PR_SET_PDEATHSIG = 1  # linux/prctl.h

_Key = TypeVar("_Key")
_Result = TypeVar("_Result")


def _end_with(parent: int) -> None:
    """A worker whose parent was killed would wait for work for ever: it ends as well."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


class Workers:
    """Processes while it is entered. For the main thread, since it takes signals as the wish to end early."""

    def __enter__(self) -> Workers:
        with ExitStack() as stack:
            self._wish = stack.enter_context(Interruptible())
            self._pool = stack.enter_context(
                ProcessPoolExecutor(os.cpu_count(), initializer=_end_with, initargs=(os.getpid(),))
            )
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)  # what nobody waits for any more
        self._stack.close()

    @property
    def interrupted(self) -> str:
        """By what, once somebody wishes the end; empty before."""
        return self._wish.words

    def each(self, one: Callable[[_Key], _Result], keys: Iterable[_Key]) -> Iterator[tuple[_Key, _Result]]:
        """`one` of each key, in the order in which they end; fewer when interrupted. What it raises is raised here."""
        waiting = {self._pool.submit(one, key): key for key in ([] if self.interrupted else keys)}
        pending = set(waiting)
        while pending:
            done, pending = wait(pending, timeout=_LOOK_EVERY_S, return_when=FIRST_COMPLETED)
            if self.interrupted:
                self._pool.shutdown(wait=False, cancel_futures=True)
                for worker in active_children():
                    worker.terminate()  # ends its run early, as a signal from the terminal has done already
                return
            for future in done:
                yield waiting[future], future.result()
