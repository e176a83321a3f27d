"""Made-up and damaged input for the four readers: settings, arrays, checkpoints, the command line.

Each case must end in a result or in one of the library's own errors: no traceback, no hang, nothing executed, no file
written over.
"""

import contextlib
import hashlib
import io
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
from stablepdenet.training import Program, Run, checkpoint, train_in

SECONDS = 20
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


def checkpoints(folder, count):
    """With sums that do not fit, and with sums made to fit, so that damage gets further."""
    counter, mark = Counter(), folder / "executed"
    problem, config = tiny(**{"operator.width": 2, "training.steps": 10, "training.warmup": 10, "method.name": "pi"})
    train_in(folder / "run", problem, config)
    run, template = Run.open(folder / "run"), Program(problem, config).initial()
    newest = checkpoint.existing(run.checkpoints)[-1]
    whole = {path.name: path.read_bytes() for path in newest.iterdir()}
    names = (checkpoint.STATE, checkpoint.MANIFEST)
    damage = st.one_of(*(st.tuples(st.just(name), mutations(whole[name], payload(mark))) for name in whole))

    @each(st.tuples(damage, st.booleans()), count)
    def _(case):
        (name, data), fitting = case
        files = {**whole, name: data}
        if fitting and name in names:
            sums = "".join(f"{hashlib.sha256(files[n]).hexdigest()}  {n}\n" for n in names)
            files[checkpoint.SUMS] = sums.encode()
        for each_name, content in files.items():
            (newest / each_name).write_bytes(content)
        counter.check(lambda: checkpoint.load(newest, template, run.stored), (name, data[:100], fitting))

    counter.executed = mark.exists()
    return counter


def command_line(folder, count):
    """Whole commands, but for the training itself."""
    counter, precious = Counter(), folder / "precious.npy"
    problem, config = tiny(**{"operator.width": 2, "training.steps": 10, "training.warmup": 5})
    train_in(folder / "good", problem, config)
    np.save(precious, np.ones(3))
    kept = precious.read_bytes()
    (folder / "bad").mkdir()
    (folder / "bad" / "config.json").write_text('{"problem": {"name": "poisson"}, "training": 3}')
    np.save(folder / "nan.npy", np.full((2, 100), np.nan))
    places = [str(folder / name) for name in ("good", "bad", "nowhere", "nan.npy", "precious.npy")]
    commands = st.sampled_from(["train", "predict", "evaluate", "report", "resume", "replay", "list", "-h", "tarin"])
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
    line = st.tuples(commands, st.lists(anything, max_size=2), st.lists(option, max_size=3))
    changed = []

    def call(words):
        out, err = io.StringIO(), io.StringIO()
        argv, sys.argv = sys.argv, ["stablepdenet", *words]
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                cli.main()
        except SystemExit as stop:
            if not isinstance(stop.code, int) or stop.code not in (0, 1, 2, 3, 4, 5, 6, 7):
                raise RuntimeError(f"exit code {stop.code!r}") from None
            if stop.code > 1 and not err.getvalue().startswith("stablepdenet: "):
                raise RuntimeError(f"no sentence: {err.getvalue()!r}") from None
            if precious.read_bytes() != kept:
                precious.write_bytes(kept)
                changed.append(words) if stop.code else None
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
            words = [command, *words, *(word for option in options for word in option)]
            counter.check(lambda: call(words), words)

    finally:
        runs.start, warnings.showwarning = begin, show
    counter.written_over = len(changed)
    return counter


READERS = {"settings": toml, "arrays": arrays, "checkpoints": checkpoints, "command_line": command_line}


def run(cases, folder):
    """As many cases as asked for, over the four readers."""
    previous = signal.signal(signal.SIGALRM, watched)
    counts = {"cases": 0, "tracebacks": 0, "hangs": 0, "executed_payloads": 0, "files_written_over": 0}
    try:
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
        signal.signal(signal.SIGALRM, previous)
    return counts
