"""A little of what `make faults` does at length, and that nothing needs a network."""

from __future__ import annotations

import base64
import hashlib
import importlib
import importlib.metadata
import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from stablepdenet.errors import UserError

FAULTS = Path(__file__).parents[1] / "faults"


@pytest.fixture
def load(monkeypatch):
    """Imports a script of faults/, as one finds the other."""
    monkeypatch.syspath_prepend(str(FAULTS))
    return importlib.import_module


@pytest.mark.long
def test_no_reader_is_surprised_by_what_it_reads(load, tmp_path):
    counts = load("fuzz").run(240, tmp_path)
    assert counts["cases"] >= 240
    for name in ("tracebacks", "hangs", "executed_payloads", "files_written_over"):
        assert counts[name] == 0, name
    # Most made-up input is refused, and some of it is good.
    assert all(counts[name]["answers"] and counts[name]["refused"] for name in load("fuzz").READERS)


def test_the_watch_sees_tracebacks_hangs_and_silence(load, monkeypatch):
    cases = load("cases")
    counter = cases.Counter()
    counter.check(lambda: 1 / 0, "division")
    monkeypatch.setattr(cases, "SECONDS", 0.1)
    previous = signal.signal(signal.SIGALRM, cases.watched)
    counter.check(lambda: [None for _ in iter(int, 1)], "for ever")
    signal.signal(signal.SIGALRM, previous)

    def silent():
        raise UserError(" ")

    counter.check(silent, "nothing said")
    assert (counter.tracebacks, counter.hangs, counter.cases) == (2, 1, 3)


def test_the_watch_sees_files_written_over(load, monkeypatch, tmp_path):
    commands = load("commands")
    monkeypatch.chdir(tmp_path)

    def careless():
        (tmp_path / "watched" / "precious.npy").write_bytes(b"")
        Path("by-a-made-up-name").write_bytes(b"")
        print("stablepdenet: no", file=sys.stderr)
        raise SystemExit(3)

    monkeypatch.setattr(commands.cli, "main", careless)
    (tmp_path / "watched").mkdir()
    assert commands.command_line(tmp_path / "watched", 10).written_over >= 10
    # Nor is the folder littered that the fuzzer was called in.
    assert [path.name for path in tmp_path.iterdir()] == ["watched"]


@pytest.mark.long
def test_killed_trainings_end_in_the_same_bytes(tmp_path):
    """In a process of its own: it forks, which must come before JAX has threads."""
    code = f"import kills; print(kills.run(3, {str(tmp_path)!r}, longest=1.0))"
    result = subprocess.run([sys.executable, "-c", code], cwd=FAULTS, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr
    for name in ("unreadable", "lost_more", "other_bytes"):
        assert f"'{name}': 0" in result.stdout


BLOCKED = """
import sys

def refuse(event, arguments):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.bind", "socket.sendto"):
        raise SystemExit(f"a network was asked for: {event}")

sys.addaudithook(refuse)
from stablepdenet.cli import main
sys.argv = ["stablepdenet", *sys.argv[1:]]
main()
"""


@pytest.mark.long
def test_the_demo_needs_no_network(tmp_path):
    command = [sys.executable, "-c", BLOCKED, "demo", "poisson", "--out", str(tmp_path)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "errors.json").exists()
    asking = BLOCKED.replace("from stablepdenet.cli import main", "import socket; socket.create_connection(('::1', 9))")
    refused = subprocess.run([sys.executable, "-c", asking], capture_output=True, text=True)
    assert "a network was asked for" in refused.stderr


def test_changed_and_missing_files_of_packages_are_found(load, tmp_path):
    dependencies = load("dependencies")
    info = tmp_path / "thing-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: thing\nVersion: 1.0\n")
    good = base64.urlsafe_b64encode(hashlib.sha256(b"x = 1\n").digest()).rstrip(b"=").decode()
    for name, content in {"good.py": b"x = 1\n", "bad.py": b"x = 2\n"}.items():
        (tmp_path / name).write_bytes(content)
    (info / "RECORD").write_text("".join(f"{name}.py,sha256={good},6\n" for name in ("good", "bad", "gone")))
    thing = importlib.metadata.Distribution.at(info)
    found, files = dependencies.compare({"thing": "1.1"}, [thing])
    assert files == 3 and len(found) == 3
    assert "lock has 1.1" in found[0] and "bad.py has been changed" in found[1] and "gone.py is missing" in found[2]


def test_the_page_shows_the_counts(load):
    page = (FAULTS.parent / "docs" / "reliability.md").read_text(encoding="utf-8")
    counts = json.loads((FAULTS.parent / "docs" / "reliability.json").read_text(encoding="utf-8"))
    run = load("run")
    assert run.fill(page, counts) == page
    assert list(counts) == list(run.PARTS)
    assert not list(run.missed(counts))
