"""One contender in a process of its own: python worker.py module.function kind case

It takes a first step and says what to compare, then answers each line {"steps": n} with the seconds they took.
"""

import importlib
import json
import os
import resource
import sys
import time


def peak_bytes():
    """The largest resident memory so far. The kernel's own mark first: getrusage also counts the parent's."""
    try:
        with open("/proc/self/status") as status:
            return next(1024 * int(line.split()[1]) for line in status if line.startswith("VmHWM"))
    except OSError:
        unit = 1 if sys.platform == "darwin" else 1024
        return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def main():
    # Libraries print to stdout when they are imported; the answers get it for themselves.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    target, kind, path = sys.argv[1:]
    module, function = target.split(".")
    contender = getattr(importlib.import_module(module), function)(path, kind)
    print(json.dumps({**contender.first(), "peak": peak_bytes()}), file=answers)
    for line in sys.stdin:
        steps = json.loads(line)["steps"]
        began = time.perf_counter()
        contender.run(steps)
        seconds = time.perf_counter() - began
        print(json.dumps({"seconds": seconds, "peak": peak_bytes()}), file=answers)


if __name__ == "__main__":
    main()
