"""Ctrl-C and SIGTERM as a request: the running chunk ends, the state is checkpointed, the run can be resumed."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def stop_requests() -> Iterator[Callable[[], int | None]]:
    """Yields a function that returns the signal received so far, or None. A second Ctrl-C interrupts at once."""
    received: list[int] = []

    def note(number: int, _: FrameType | None) -> None:
        if received and number == signal.SIGINT:
            raise KeyboardInterrupt
        received.append(number)

    # Only the main thread may set handlers; elsewhere the caller's own stay in force.
    owned = (signal.SIGINT, signal.SIGTERM) if threading.current_thread() is threading.main_thread() else ()
    previous = {number: signal.signal(number, note) for number in owned}
    try:
        yield lambda: received[0] if received else None
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
