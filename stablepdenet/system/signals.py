"""Ctrl-C, SIGTERM and SIGHUP as a request: the running chunk ends, and the state is checkpointed to be resumed."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

OWNED = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
_received: list[int] | None = None


@contextmanager
def stop_requests() -> Iterator[Callable[[], int | None]]:
    """Yields a function that returns the signal received so far, or None. A second signal ends the process at once.

    Inside another such context the outer one goes on listening, so a signal that comes between two trainings, or while
    the first one is still being compiled, is not lost.
    """
    global _received
    # Only the main thread may set handlers; elsewhere the caller's own stay in force.
    if _received is not None or threading.current_thread() is not threading.main_thread():
        received = _received if _received is not None else []
        yield lambda: received[0] if received else None
        return
    received = _received = []

    def note(number: int, _: FrameType | None) -> None:
        if received:
            raise KeyboardInterrupt if number == signal.SIGINT else SystemExit(128 + number)
        received.append(number)

    previous = {number: signal.signal(number, note) for number in OWNED}
    try:
        yield lambda: received[0] if received else None
    finally:
        _received = None
        for number, handler in previous.items():
            signal.signal(number, handler)
