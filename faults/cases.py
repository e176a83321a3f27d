"""Made-up and damaged input, and what happened to it."""

import signal

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stablepdenet.errors import UserError

SECONDS = 20
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
