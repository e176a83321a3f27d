"""The architecture, kept: imports go one way, files stay short, nothing unsafe is called."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "stablepdenet"
FILES = sorted(PACKAGE.rglob("*.py"))

# The way data goes: a stage imports from itself and from the stages before it.
STAGES = [
    "errors",
    "progress",
    "system",
    "files",
    "functions",
    "operators",
    "attacks",
    "problems",
    "solving",
    "projecting",
    "refining",
    "spectral",
    "saving",
    "robust",
    "training",
    "auditing",
    "experiments",
    "cli",
    "__main__",
]
# The same within experiments/.
EXPERIMENTS = [
    "solvers",
    "problems",
    "config",
    "recipes",
    "training",
    "results",
    "report",
    "reading",
    "range",
    "runs",
    "predicting",
    "zoo",
    "campaign",
    "demo",
]


def _stage(path, folder=PACKAGE):
    return path.relative_to(folder).parts[0].removesuffix(".py")


def _imported(path, package="stablepdenet"):
    """What comes after the package's name in each import from it."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module == package:
            yield from (alias.name for alias in node.names if alias.name != "__version__")
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.startswith(f"{package}."):
            yield node.module.removeprefix(f"{package}.").split(".")[0]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names if alias.name.startswith(f"{package}.")]
            yield from (name.removeprefix(f"{package}.").split(".")[0] for name in names)


def test_every_module_has_its_stage():
    assert {_stage(path) for path in FILES} - {"__init__"} == set(STAGES)
    inner = PACKAGE / "experiments"
    assert {_stage(path, inner) for path in inner.rglob("*.py")} - {"__init__"} == set(EXPERIMENTS)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_go_one_way(path):
    if path == PACKAGE / "__init__.py":
        assert not list(_imported(path))
        return
    here = STAGES.index(_stage(path))
    assert not [name for name in _imported(path) if STAGES.index(name) > here]
    inner = PACKAGE / "experiments"
    if path.is_relative_to(inner) and path != inner / "__init__.py":
        here = EXPERIMENTS.index(_stage(path, inner))
        assert not [n for n in _imported(path, "stablepdenet.experiments") if EXPERIMENTS.index(n) > here]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_files_are_short_and_documented(path):
    source = path.read_text()
    assert len(source.splitlines()) <= 300
    assert ast.get_docstring(ast.parse(source))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_nothing_unsafe_is_called(path):
    tree = ast.parse(path.read_text())
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    modules = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    modules |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    pickling = [node for node in ast.walk(tree) if isinstance(node, ast.keyword) and node.arg == "allow_pickle"]
    assert not names & {"eval", "exec", "compile"}
    assert not modules & {"pickle", "cloudpickle", "joblib", "yaml", "marshal", "shelve"}
    assert all(isinstance(node.value, ast.Constant) and node.value.value is False for node in pickling)


def test_the_design_page_names_functions_that_exist():
    page = (ROOT / "docs" / "design.md").read_text()
    links = re.findall(r"`(stablepdenet/[\w/]+\.py)::(\w+)`", page)
    assert len(links) > 20
    for file, name in links:
        tree = ast.parse((ROOT / file).read_text())
        defined = {n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.ClassDef)}
        assert name in defined, f"{file}::{name}"


# Every label of the paper's numbered equations and algorithms.
LABELS = [
    "eq:abstract-pde",
    "eq:residual-blocks",
    "eq:deeponet",
    "eq:block-residual",
    "eq:block-discrete-l2",
    "eq:physics-loss",
    "equ:possion_1d",
    "eq:training-attack",
    "eq:linf-admissible-set",
    "eq:pgd-attack-linf",
    "eq:bl-l2-admissible-set",
    "eq:pgd-attack-bl-l2",
    "eq:adv-objective",
    "eq:normalized-discrete-l2",
    "eq:sampled-residual-response",
    "eq:increment-loss",
    "eq:stable-objective",
    "eq:lambda-calibration",
    "eq:naive-robustness",
    "eq:response-consistency",
    "eq:error-operator",
    "eq:response-decomposition",
    "eq:true_stability",
    "eq:learned-lipschitz",
    "eq:linear-pde",
    "eq:linear-error-bound",
    "eq:nonlinear_inverse_stability",
    "eq:nonlinear_jacobian_lipschitz",
    "eq:error_tube",
    "eq:nonlinear_tube_condition",
    "eq:nonlinear_residual_to_error",
    "eq:nonlinear_residual_sensitivity_bound",
    "eq:nonlinear_residual_lipschitz",
    "eq:nonlinear_error_lipschitz",
    "eq:nonlinear_error_constant",
    "eq:nonlinear_learned_operator_stability",
    "alg:stable_attack",
    "alg:stable_train",
    "eq:test-attack",
    "eq:heat_initial",
    "eq:helmholtz",
    "eq:helmholtz_exact_sine",
    "eq:helmholtz-coefficient-norm",
    "eq:exact-response",
    "eq:helmholtz_nearresonant_kappa",
    "eq:helmholtz_nearresonant_bc_weight",
    "eq:helm-l2-constant",
    "eq:helmholtz_nearresonant_gain",
]


@pytest.mark.parametrize("label", LABELS)
def test_the_design_page_covers_every_definition_and_algorithm_of_the_paper(label):
    page = (ROOT / "docs" / "design.md").read_text()
    assert re.search(rf"(?<![\w-]){re.escape(label)}(?![\w-])", page)
