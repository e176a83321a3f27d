"""Where compiled programs are kept."""

from __future__ import annotations

import os
import stat
import subprocess
import sys

from stablepdenet.system.compilation import keep_compiled

NAMES = ("JAX_COMPILATION_CACHE_DIR", "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS")


def _clear(monkeypatch, home):
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(home))


def test_programs_are_kept_in_a_private_folder_of_the_user(monkeypatch, tmp_path):
    _clear(monkeypatch, tmp_path)
    keep_compiled()
    folder = tmp_path / "stablepdenet" / "compiled"
    assert os.environ[NAMES[0]] == str(folder)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_what_the_user_sets_is_obeyed(monkeypatch, tmp_path):
    for choice in ("", str(tmp_path / "mine")):
        _clear(monkeypatch, tmp_path)
        monkeypatch.setenv(NAMES[0], choice)
        keep_compiled()
        assert os.environ[NAMES[0]] == choice
        assert not (tmp_path / "stablepdenet").exists()


def test_a_folder_that_others_can_write_to_is_not_used(monkeypatch, tmp_path):
    _clear(monkeypatch, tmp_path)
    folder = tmp_path / "stablepdenet" / "compiled"
    folder.mkdir(parents=True)
    folder.chmod(0o777)
    keep_compiled()
    assert NAMES[0] not in os.environ


def test_without_a_folder_there_is_no_cache_and_no_error(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    _clear(monkeypatch, tmp_path / "file")
    keep_compiled()
    assert NAMES[0] not in os.environ


def test_a_command_makes_the_folder(tmp_path):
    environment = {name: value for name, value in os.environ.items() if name not in NAMES}
    environment["XDG_CACHE_HOME"] = str(tmp_path)
    command = [sys.executable, "-m", "stablepdenet", "doctor"]
    subprocess.run(command, env=environment, check=True, capture_output=True, timeout=120)
    assert (tmp_path / "stablepdenet" / "compiled").is_dir()
