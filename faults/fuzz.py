"""Made-up and damaged input for the four readers: settings, arrays, checkpoints, the command line.

Each case must end in a result or in one of the library's own errors: no traceback, no hang, nothing executed, no file
written over that was not named for it, and within GROWTH bytes of memory more than before.
"""

import hashlib
import io
import json
import resource
import signal
from pathlib import Path

import numpy as np
from cases import KEYS, TOML, VALUES, Counter, each, mutations, payload, watched
from commands import command_line
from hypothesis import strategies as st
from tiny import tiny

from stablepdenet.experiments import runs
from stablepdenet.experiments.config import Config, override, parse_settings, read_toml
from stablepdenet.experiments.reading import read_inputs
from stablepdenet.experiments.training import Run, state_shapes, train_in
from stablepdenet.training import checkpoint

GROWTH, SIZE = 4 << 30, 4


def toml(folder, count):
    counter, path = Counter(), folder / "settings.toml"

    @each(mutations(TOML), count // 2)
    def _(data):
        path.write_bytes(data)
        counter.check(lambda: override(Config(problem={"name": "poisson"}), read_toml(path)), data)

    pair = st.tuples(st.sampled_from(KEYS) | st.text(max_size=20), st.sampled_from(VALUES) | st.text(max_size=20))

    @each(pair.map("=".join), count // 2)
    def _(text):
        counter.check(lambda: override(Config(problem={"name": "poisson"}), parse_settings([text])), text)

    return counter


def arrays(folder, count):
    counter, mark = Counter(), folder / "executed"
    buffers = {".npy": [], ".csv": [b"1,2,3,4\n5,6,7,8\n", b"\xef\xbb\xbf1,2,3,4\n", b"1e39,nan,inf,-0\n"]}
    huge = np.lib.format.header_data_from_array_1_0(np.zeros(1)) | {"shape": (1 << 40, SIZE)}
    for array in (np.ones((2, SIZE)), np.ones((2, SIZE), np.float32), np.arange(SIZE), np.ones((2, SIZE), complex)):
        buffer = io.BytesIO()
        np.save(buffer, array)
        buffers[".npy"].append(buffer.getvalue())
    for header, rest in ((huge, b"\0" * 64), ({"descr": "|O", "fortran_order": False, "shape": (1,)}, b"")):
        buffer = io.BytesIO()
        np.lib.format.write_array_header_1_0(buffer, header)
        buffers[".npy"].append(buffer.getvalue() + (rest or payload(mark)))
    buffers[".npy"].append(payload(mark))
    for suffix, originals in buffers.items():
        path = folder / f"inputs{suffix}"

        def read(data, path=path):
            path.write_bytes(data)
            counter.check(lambda: read_inputs(path, SIZE), data)

        each(mutations(*originals), count // 2)(lambda data, read=read: read(data))

    counter.executed = mark.exists()
    return counter


def retyped(data, dtype):
    """A safetensors file whose first tensor of float32 says it is of another type, of half the size."""
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    entry = next(e for e in header.values() if e.get("dtype") == "F32" and e["shape"])
    entry |= {"dtype": dtype, "shape": [2 * entry["shape"][0], *entry["shape"][1:]]}
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data[8 + length :]


def checkpoints(folder, count):
    """With sums that do not fit, and with sums made to fit, so that damage gets further; and a run's settings."""
    counter, mark = Counter(), folder / "executed"
    problem, config = tiny(**{"operator.width": 2, "training.steps": 10, "training.warmup": 10, "method.name": "pi"})
    train_in(folder / "run", problem, config)
    run, template = Run.open(folder / "run"), state_shapes(problem, config)
    newest = checkpoint.existing(run.checkpoints)[-1]
    whole = {path.name: path.read_bytes() for path in newest.iterdir()}
    names = (checkpoint.STATE, checkpoint.MANIFEST)
    others = {checkpoint.STATE: (retyped(whole[checkpoint.STATE], "BF16"), retyped(whole[checkpoint.STATE], "F16"))}
    damage = st.one_of(*(st.tuples(st.just(n), mutations(whole[n], payload(mark), *others.get(n, ()))) for n in whole))

    @each(st.tuples(damage, st.booleans()), count * 9 // 10)
    def _(case):
        (name, data), fitting = case
        files = {**whole, name: data}
        if fitting and name in names:
            sums = "".join(f"{hashlib.sha256(files[n]).hexdigest()}  {n}\n" for n in names)
            files[checkpoint.SUMS] = sums.encode()
        for each_name, content in files.items():
            (newest / each_name).write_bytes(content)
        counter.check(lambda: checkpoint.load(newest, template, run.stored), (name, data[:100], fitting))

    for name, content in whole.items():
        (newest / name).write_bytes(content)
    settings_file = folder / "run" / "config.json"

    @each(mutations(settings_file.read_bytes()), count - count * 9 // 10)
    def _(data):
        settings_file.write_bytes(data)
        counter.check(lambda: runs.load_operator(folder / "run"), data[:100])

    counter.executed = mark.exists()
    return counter


READERS = {"settings": toml, "arrays": arrays, "checkpoints": checkpoints, "command_line": command_line}


def run(cases, folder):
    """As many cases as asked for, over the four readers."""
    previous = signal.signal(signal.SIGALRM, watched)
    counts = {"cases": 0, "tracebacks": 0, "hangs": 0, "executed_payloads": 0, "files_written_over": 0}
    limits = resource.getrlimit(resource.RLIMIT_AS)
    try:
        # What asks for more ends in a MemoryError, which counts as a traceback.
        resource.setrlimit(resource.RLIMIT_AS, (in_use() + GROWTH, limits[1]))
        for name, reader in READERS.items():
            own = Path(folder) / name
            own.mkdir(parents=True)
            counter = reader(own, cases // len(READERS))
            counts[name] = {"cases": counter.cases, "answers": counter.answers, "refused": counter.refused}
            counts["cases"] += counter.cases
            counts["tracebacks"] += counter.tracebacks
            counts["hangs"] += counter.hangs
            counts["executed_payloads"] += getattr(counter, "executed", False)
            counts["files_written_over"] += getattr(counter, "written_over", 0)
            for example in counter.examples[:10]:
                print(f"  {name}: {example}", flush=True)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)
        signal.signal(signal.SIGALRM, previous)
    return counts


def in_use():
    """Bytes of this process's address space."""
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
