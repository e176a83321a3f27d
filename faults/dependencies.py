"""Whether what is installed is what lock files say, and every file of it what its wheel said:

python faults/dependencies.py lock/test.txt lock/torch.txt
"""

import base64
import hashlib
import importlib.metadata
import re
import sys
from pathlib import Path

# What an environment has of its own, and the package itself.
OWN = {"pip", "stablepdenet"}


def plain(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def wrong_files(distribution):
    """Files that are missing or do not have the hash that was recorded when they were installed."""
    for file in distribution.files or ():
        if file.hash is None:
            continue
        try:
            data = Path(file.locate()).read_bytes()
        except OSError:
            yield f"{file} is missing"
            continue
        found = base64.urlsafe_b64encode(hashlib.new(file.hash.mode, data).digest()).rstrip(b"=").decode()
        if found != file.hash.value:
            yield f"{file} has been changed"


def compare(locked, distributions):
    """A sentence for all that is wrong, and how many files were looked at."""
    found, files, seen = [], 0, set()
    for distribution in distributions:
        name, version = plain(distribution.metadata["Name"]), distribution.version
        seen.add(name)
        if name in OWN:
            continue
        if locked.get(name) != version:
            found.append(f"{name} {version} is installed, the lock has {locked.get(name, 'none')}")
        files += sum(file.hash is not None for file in distribution.files or ())
        found += [f"{name}: {what}" for what in wrong_files(distribution)]
    found += [f"{name} is locked and not installed" for name in sorted(locked.keys() - seen)]
    return found, files


def main():
    lines = "\n".join(Path(path).read_text(encoding="utf-8") for path in sys.argv[1:])
    pins = re.findall(r"^([\w.-]+)==(\S+)", lines, re.MULTILINE)
    locked = {plain(name): version for name, version in pins}
    found, files = compare(locked, list(importlib.metadata.distributions()))
    print("\n".join(found) or f"{len(locked)} packages as locked, {files} files as recorded.")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
