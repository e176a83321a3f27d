# Two commands do everything on a machine with Python 3.11 and make: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
PEERS := .venv-peers
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
# Where PyTorch's CPU build is: a page, or a folder of wheels.
TORCH ?= https://download.pytorch.org/whl/cpu/torch/

.PHONY: demo test test-slow test-all slow-tests lint bench bench-accuracy bench-layouts bench-steps bench-profile bench-growth bench-serving bench-startup zoo faults dependencies lock clean

demo: $(VENV)/installed
	$(BIN)/stablepdenet demo --out runs/demo

test: $(VENV)/installed-test
	$(BIN)/python -m pytest -m "not slow and not long"

# What .ci/run runs after these, and all of them.
test-slow: $(VENV)/installed-test
	$(BIN)/python -m pytest -m "slow and not long"

test-all: $(VENV)/installed-test
	$(BIN)/python -m pytest

# Which tests are slow: those of more than two seconds, on an idle machine.
slow-tests: $(VENV)/installed-test
	$(BIN)/python -m pytest -m "not long" --durations=0 --durations-min=2 | sed -nE 's/^[0-9.]+s call +//p' | sort > tests/slow.new
	mv tests/slow.new tests/slow.txt

lint: $(VENV)/installed-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Beside the peers: one step in 20 minutes at most, and error against time (docs/performance.md).
bench: $(VENV)/installed $(PEERS)/installed
	$(BIN)/python benchmarks/peers/bench.py --peers $(PEERS)/bin/python --out runs/bench

bench-accuracy: $(VENV)/installed $(PEERS)/installed
	$(BIN)/python benchmarks/peers/accuracy.py --peers $(PEERS)/bin/python --out runs/bench

bench-layouts: $(VENV)/installed $(PEERS)/installed
	$(BIN)/python benchmarks/peers/layouts.py --peers $(PEERS)/bin/python --out runs/bench

# This library alone.
bench-steps bench-growth bench-serving bench-startup: bench-%: $(VENV)/installed
	$(BIN)/python benchmarks/$*.py --out runs/bench

bench-profile: $(VENV)/installed
	$(BIN)/python benchmarks/profile_step.py --out runs/bench

# Seed 0's operators of the campaign in results/ become the package's model zoo.
zoo:
	mkdir -p stablepdenet/data/zoo
	cp results/models/paper/*.safetensors results/models/robust/*.safetensors stablepdenet/data/zoo/

# Kills, flipped bytes, made-up input, numbers that are not finite: counts for docs/reliability.md, in half an hour.
faults: $(VENV)/installed-test
	$(BIN)/python faults/run.py --out docs/reliability.json

# Without a network: that what is installed is what the lock says, file by file.
dependencies: $(VENV)/installed-test
	$(BIN)/python -m pip check
	$(BIN)/python faults/dependencies.py lock/test.txt lock/torch.txt

# Newer versions that pyproject.toml allows, with the hashes of all their files; of PyTorch, that of lock/torch.txt.
lock:
	$(PYTHON) -m venv .venv-lock
	.venv-lock/bin/python -m pip install --quiet --disable-pip-version-check uv
	for name in run test; do .venv-lock/bin/uv pip compile --quiet --upgrade --generate-hashes --no-header --no-annotate \
	    --no-emit-index-url --python-version 3.11 pyproject.toml lock/build.in $$([ $$name = test ] && \
	    echo --extra test lock/torch.txt --find-links $(TORCH) --no-emit-find-links --no-emit-package torch) \
	    --output-file lock/$$name.txt || exit 1; done

clean:
	rm -rf .venv-lock $(VENV) $(PEERS) build *.egg-info

$(VENV)/created:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "stablepdenet needs Python 3.11 or newer: run make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)
	touch $@

# The peers have an environment of their own: nothing here depends on them.
$(PEERS)/installed: benchmarks/peers/requirements.txt
	$(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check --requirement $<
	touch $@

# Editable, so that a change in the sources needs no new installation.
# What lock/ does not have the hash of is not installed; the package itself is built by what the lock has.
$(VENV)/installed: $(VENV)/created pyproject.toml lock/run.txt
	$(PIP) --require-hashes --requirement lock/run.txt
	$(PIP) --no-deps --no-build-isolation --editable .
	touch $@

$(VENV)/installed-test: $(VENV)/created pyproject.toml lock/test.txt lock/torch.txt
	-$(PIP) --no-deps --require-hashes --requirement lock/torch.txt --find-links $(TORCH) --retries 1
	$(PIP) --require-hashes --requirement lock/test.txt
	$(PIP) --no-deps --no-build-isolation --editable .
	touch $@ $(VENV)/installed
