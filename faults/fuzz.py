"""Made-up and damaged input for the four readers: settings, arrays, checkpoints, the command line.

Each case must end in a result or in one of the library's own errors: no traceback, no hang, nothing executed, no file
written over that was not named for it, and within GROWTH bytes of memory more than before.
"""

import contextlib
import hashlib
import io
import json
import resource
import signal
import sys
import warnings
from pathlib import Path

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tiny import tiny

from stablepdenet import cli, runs
from stablepdenet.config import Config, override, parse_settings, read_toml
from stablepdenet.errors import ConfigError, UserError
from stablepdenet.reading import read_inputs
from stablepdenet.results import Result, save_result
from stablepdenet.training import Program, Run, checkpoint, train_in

SECONDS, GROWTH = 20, 4 << 30
SIZE = 4
TOML = (
    b'seed = 3\n[training]\nsteps = 20\ncache = "batch"\n[attack]\neps = 0.1\nrandom_start = true\n[problem]\nx = 1\n'
)
KEYS = ("training.steps", "attack.eps", "seed", "operator.kind", "method.name", "problem.interior", "recipe", "x.y")
VALUES = ("1", "-1", "1e400", "nan", "inf", "true", '"a"', "[]", "{}", "1979-05-27", "0x10", "'''", "9" * 400, "")


class Hang(BaseException):
    pass


def payload(mark):
    """A pickle, written by hand: whoever loads it runs a command that leaves a mark."""
    return f"cos\nsystem\n(S'touch {mark}'\ntR.".encode()


class Counter:
    """What happened to the cases of one reader."""

    def __init__(self):
        self.cases = self.answers = self.refused = self.tracebacks = self.hangs = 0
        self.examples = []

    def check(self, action, case):
        """Runs one case under a watch."""
        self.cases += 1
        signal.setitimer(signal.ITIMER_REAL, SECONDS)
        try:
            action()
            self.answers += 1
        except UserError as error:
            self.refused += 1
            self._sentence(str(error), case)
        except Hang:
            self.hangs += 1
            self.examples.append(repr(case)[:300])
        except Exception as error:
            self.tracebacks += 1
            self.examples.append(f"{type(error).__name__}: {error} from {case!r}"[:500])
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)

    def _sentence(self, message, case):
        if not message.strip() or "Traceback" in message:
            self.tracebacks += 1
            self.examples.append(f"{message!r} from {case!r}"[:500])


def watched(number, _):
    raise Hang


def mutations(*originals):
    """Real files with bytes changed, cut out, doubled or put in, and others that were never real."""

    def damage(data, cuts):
        for place, length, new in cuts:
            place = place % (len(data) + 1)
            data = data[:place] + new + data[place + length :]
        return data

    cut = st.tuples(st.integers(0, 1 << 20), st.sampled_from([0, 1, 1, 2, 8, 1 << 20]), st.binary(max_size=8))
    real = st.builds(damage, st.sampled_from(originals), st.lists(cut, max_size=4))
    return st.one_of(real, real, real, st.binary(max_size=200), st.text(max_size=100).map(str.encode))


def each(strategy, count):
    """Calls a function on so many examples."""

    def decorate(function):
        quiet = settings(
            max_examples=count, database=None, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True
        )

        @quiet
        @given(strategy)
        def examples(case):
            function(case)

        examples()

    return decorate


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
    run, template = Run.open(folder / "run"), Program(problem, config).shapes()
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


def command_line(folder, count):
    """Whole commands, but for the training itself, called in a folder of their own: some make files by made-up names."""
    counter, precious, here = Counter(), folder / "precious.npy", folder / "here"
    here.mkdir()
    problem, config = tiny(**{"operator.width": 2, "training.steps": 10, "training.warmup": 5})
    train_in(folder / "good", problem, config)
    np.save(precious, np.ones(3))
    np.save(folder / "inputs.npy", np.ones((2, problem.input.size)))
    (folder / "settings.toml").write_bytes(TOML)
    rows = [{"method": "pi", "setting": "clean", "attack": "none", "metric": "relative_l2", "value": 0.1}]
    save_result(folder / "results", Result("paper", "poisson", 0, rows, {}, {}, {}, {}, []))
    (folder / "bad").mkdir()
    (folder / "bad" / "config.json").write_text('{"problem": {"name": "poisson"}, "training": 3}')
    np.save(folder / "nan.npy", np.full((2, 100), np.nan))
    there = ("good", "bad", "nowhere", "nan.npy", "precious.npy", "inputs.npy", "settings.toml", "results")
    places = [str(folder / name) for name in there]
    commands = st.sampled_from(["train", "predict", "evaluate", "report", "resume", "replay", "audit", "list", "tarin"])
    problems = st.sampled_from(["poisson", "heat", "wave", "burgers", "all", "3"])
    number = st.integers(-3, 1 << 70).map(str) | st.floats().map(str)
    anything = st.one_of(st.sampled_from(places), problems, number, st.text(max_size=12))
    setting = st.tuples(st.sampled_from(KEYS), st.sampled_from(VALUES) | number).map("=".join)
    option = st.one_of(
        st.tuples(st.just("--set"), setting),
        st.tuples(st.sampled_from(["--seed", "--method", "--out", "--recipe", "--config", "--input"]), anything),
        st.tuples(st.sampled_from(["--parts", "--tests", "--eps", "--format", "-o", "--replay"]), anything),
        st.tuples(st.just("--output"), st.just(str(precious))),
        st.tuples(st.sampled_from(["--json", "--resume", "--deterministicc", "--", ""])),
    )
    drawn = st.tuples(commands, st.lists(anything, max_size=2), st.lists(option, max_size=3))
    # Whole commands that write where something lies, beside one that is drawn.
    writing = st.sampled_from(
        [
            ["predict", places[0], "--input", places[5], "--output", str(precious)],
            ["report", places[7], "--format", "md", "-o", str(precious)],
        ]
    )
    line = st.one_of(drawn, drawn, drawn, st.tuples(writing, st.just([]), st.lists(option, max_size=2)))
    changed, kept = [], files_in(folder)

    def call(words):
        out, err = io.StringIO(), io.StringIO()
        argv, sys.argv = sys.argv, ["stablepdenet", *words]
        try:
            with contextlib.chdir(here), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                cli.main()
        except SystemExit as stop:
            if not isinstance(stop.code, int) or stop.code not in (0, 1, 2, 3, 4, 5, 6, 7):
                raise RuntimeError(f"exit code {stop.code!r}") from None
            if stop.code > 1 and not err.getvalue().startswith("stablepdenet: "):
                raise RuntimeError(f"no sentence: {err.getvalue()!r}") from None
            now = files_in(folder)
            touched = {path for path, data in kept.items() if now.get(path) != data}
            # What succeeded may write where it was told to, and nowhere else.
            changed.extend(touched if stop.code else touched - {Path(word) for word in words})
            for path in touched:
                path.write_bytes(kept[path])
            if stop.code:
                raise UserError(err.getvalue()) from None
        finally:
            sys.argv = argv

    def would_train(*_, **__):
        raise ConfigError("A training would begin here.")

    begin, show = runs.start, warnings.showwarning
    runs.start = would_train
    try:

        @each(line, count)
        def _(case):
            command, words, options = case
            words = [
                *([command] if isinstance(command, str) else command),
                *words,
                *(word for option in options for word in option),
            ]
            counter.check(lambda: call(words), words)

    finally:
        runs.start, warnings.showwarning = begin, show
    counter.written_over = len(changed)
    return counter


def files_in(folder):
    """What lies in a folder, but for locks."""
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.name != "lock"}


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
