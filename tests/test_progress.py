"""How far long work is, as a reader of stderr sees it."""

from __future__ import annotations

import sys

import pytest

from stablepdenet import progress
from stablepdenet.progress import Report, ShownProgress, displayed, silent


@pytest.fixture
def clock(monkeypatch):
    """The time, to be set by hand."""
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def test_a_line_comes_every_ten_seconds_with_the_rate_and_the_time_left(clock, capsys):
    with displayed(None, "heat") as told:
        for seconds, done in ((1.0, 10), (6.0, 20), (11.0, 30)):
            clock[0] = seconds
            told(Report("stable", done, 50, "loss 1e-3"))
    # Ten steps in five seconds, counted from the first report, which comes after compiling.
    assert capsys.readouterr().err.splitlines() == ["heat  stable  30/50  loss 1e-3  2/s  10 s left"]


def test_the_last_report_is_shown_whenever_it_comes(clock, capsys):
    with displayed(None, "heat") as told:
        told(Report("audit", 0, 2, "clean"))
        told(Report("audit", 2, 2, "done"))
    assert capsys.readouterr().err == "heat  audit  2/2  done\n"


def test_a_given_progress_is_told_instead(capsys):
    seen: list[Report] = []
    with displayed(seen.append, "heat") as told:
        told(Report("audit", 2, 2))
    with displayed(silent, "heat") as told:
        told(Report("audit", 2, 2))
    assert seen == [Report("audit", 2, 2)] and capsys.readouterr().err == ""


def test_a_reader_that_left_does_not_end_the_work(clock, monkeypatch):
    class Closed:
        def isatty(self):
            return False

        def write(self, text):
            raise BrokenPipeError

        def flush(self):
            raise BrokenPipeError

    monkeypatch.setattr(sys, "stderr", Closed())
    with displayed(None, "heat") as told:
        told(Report("audit", 2, 2))


def test_a_terminal_shows_a_bar_for_each_task_and_no_markup(monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    with displayed(None, "[red]mine") as told:
        told(Report("pi", 1, 4, "[bold]loss"))
        told(Report("adv", 2, 4))
        assert isinstance(told, ShownProgress) and len(told.tasks) == 2
    assert "[red]mine pi" in capsys.readouterr().err
