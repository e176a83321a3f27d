"""Operators as files: their numbers as safetensors, and what these are the numbers of in the file's header.

Functions are not stored: what a solved operator is made of, an ansatz and residuals come from the problem. So nothing
here runs code from a file, and an operator is loaded for the problem that it was made for.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import safetensors.numpy
from numpy import ndarray

from stablepdenet.errors import CheckpointError, ConfigError
from stablepdenet.files import from_arrays, read_arrays, storage, to_arrays, write_synced
from stablepdenet.operators import (
    BasisOperator,
    ConstrainedOperator,
    DeepONet,
    FunctionOperator,
    HostOperator,
    LinearOperator,
    ModifiedDeepONet,
    ModuleOperator,
    MovingFrameOperator,
    TorchOperator,
)
from stablepdenet.problems import Problem
from stablepdenet.projecting import ProjectedOperator, project
from stablepdenet.refining import RefinedOperator, faster, refine
from stablepdenet.solving import fixed_functions
from stablepdenet.spectral import (
    JudgedOperator,
    SpectralOperator,
    plan_from,
    spectral_operator,
    stored_plan,
    with_estimate,
)

FORMAT = "stablepdenet-operator-1"
# Inputs and points that a stored operator is compared at, and by how much it may differ, of its size.
INPUTS, POINTS, CLOSE = 2, 16, 1e-5


def save(operator: Any, path: Path | str, problem: Problem) -> None:
    """Writes an operator of the problem to one file: a DeepONet, with constraints or without, a solved one, a refined
    one, one in a moving frame, what `robust` made, or an equinox module of your own.

        sp.save(operator, "darcy.safetensors", darcy)
        operator = sp.load("darcy.safetensors", darcy)
    """
    inner, layers = _peeled(operator)
    header = {
        "format": FORMAT,
        "fingerprint": problem.fingerprint,
        "operator": json.dumps(_described(inner)),
        "layers": json.dumps(layers),
    }
    # A spectral operator's numbers follow from its plan.
    arrays = {} if isinstance(inner, SpectralOperator) else to_arrays(inner)
    _require_same(operator, _rebuilt(header, arrays, problem, inner, "The operator"), problem)
    path = Path(path)
    with storage(path.parent, "path"):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_synced(path, safetensors.numpy.save(arrays, metadata=header))


def load(path: Path | str, problem: Problem, *, like: Any = None) -> Any:
    """The operator in a file that `save` wrote, for the problem that it was made for.

    `like` is for equinox modules of your own: one of the same structure, freshly built. Its arrays are replaced; what
    else it holds, as activation functions, stays.
    """
    path = Path(path)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise CheckpointError(f"Cannot read '{path}': {error.strerror or error}.") from None
    try:
        arrays, header = read_arrays(data)
        if header["format"] != FORMAT:
            raise ValueError
        problem.require(header["fingerprint"], f"'{path}'")
        return _rebuilt(header, arrays, problem, like, f"'{path}'")
    except (KeyError, TypeError, ValueError, AttributeError):
        raise CheckpointError(f"'{path}' is not an operator that `save` of this version wrote.") from None


def _peeled(operator: Any) -> tuple[Any, list[dict[str, Any]]]:
    """What holds the numbers, and what is around it, from the inside out: that has none of its own to be kept."""
    match operator:
        case ConstrainedOperator():
            own: dict[str, Any] = {"kind": "constrained"}
        case ProjectedOperator():
            own = {"kind": "projected"}
        case RefinedOperator():
            fast = operator.slopes is not None
            own = {"kind": "refined", "steps": operator.steps, "further": operator.further, "faster": fast}
        case MovingFrameOperator():
            own = {"kind": "moving"}
        case JudgedOperator():
            own = {"kind": "judged", "judge": _plan(operator.judge)}
        case _:
            return operator, []
    held = operator.operator
    # What is projected is wrapped anew.
    inner, layers = _peeled(held.module if isinstance(held, ModuleOperator) else held)
    return inner, [*layers, own]


def _described(operator: Any) -> dict[str, Any]:
    """The kind of what holds the numbers, and what else is needed to build it."""
    if isinstance(operator, FunctionOperator | HostOperator | TorchOperator) or jax.tree_util.all_leaves([operator]):
        raise ConfigError(f"A {type(operator).__name__} cannot be kept in a file: save an equinox module.")
    if type(operator) is BasisOperator and any(
        jax.tree_util.all_leaves([part]) for part in (operator.of_inputs, operator.of_points)
    ):
        raise ConfigError("A BasisOperator of plain functions cannot be kept in a file: make it of equinox modules.")
    # Not what is derived from them: that is a user's own.
    if type(operator) is LinearOperator:
        return {"kind": "linear"}
    if type(operator) is SpectralOperator:
        return {"kind": "spectral", **_plan(operator)}
    if type(operator) is ModifiedDeepONet:
        sizes = {"width": operator.encode_input.bias.shape[0], "depth": len(operator.branch)}
        return {"kind": "modified", "dtype": str(operator.bias.dtype), **sizes}
    if type(operator) is DeepONet:
        return {
            "kind": "deeponet",
            "dtype": str(operator.bias.dtype),
            "width": operator.branch.layers[-1].bias.shape[0],
            "depth": len(operator.branch.layers),
            "embedding": operator.embedding,
            "components": operator.components,
            "tanh_trunk": operator.tanh_trunk,
            "scaled": operator.intervals is not None,
        }
    return {"kind": "module"}


def _rebuilt(header: dict[str, str], arrays: dict[str, ndarray], problem: Problem, like: Any, source: str) -> Any:
    """The operator of a file."""
    operator = _filled(json.loads(header["operator"]), arrays, problem, like, source)
    for layer in json.loads(header["layers"]):
        operator = _around(operator, layer, problem)
    return operator


def _filled(stored: dict[str, Any], arrays: dict[str, ndarray], problem: Problem, like: Any, source: str) -> Any:
    """What holds the numbers."""
    own = dict(stored)
    kind, sizes = own.pop("kind"), (problem.inputs.size, problem.domain.dimension)
    if kind == "module":
        if like is None:
            raise ConfigError(f"{source} holds a module of your own: pass like=, a freshly built one.")
        return from_arrays(arrays, like, source)
    if kind == "linear":
        lift = problem.ansatz.lift if problem.ansatz else None
        matrix, constant = arrays["matrix"], arrays["constant"]
        if matrix.shape != (sizes[0], len(constant)):
            raise ValueError
        return LinearOperator(matrix, constant, fixed_functions(problem), lift, problem.domain.dimension)
    if kind == "spectral":
        return _planned(own, problem)
    dtype = np.dtype(own.pop("dtype"))
    if jax.dtypes.canonicalize_dtype(dtype) != dtype:
        raise ConfigError(f"{source} is in {dtype}: jax.config.update('jax_enable_x64', True) before it is loaded.")
    if kind == "deeponet" and own.pop("scaled"):
        own["domain"] = problem.domain
    made = {"deeponet": DeepONet, "modified": ModifiedDeepONet}[kind]
    shapes = eqx.filter_eval_shape(made, *sizes, **own, key=jax.random.key(0))
    return from_arrays(arrays, jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, dtype), shapes), source)


def _around(operator: Any, layer: dict[str, Any], problem: Problem) -> Any:
    """What is around the numbers is made anew."""
    match layer["kind"]:
        case "projected":
            return project(operator, problem)
        case "refined":
            refined = refine(operator, problem, steps=layer["steps"], further=layer["further"])
            return faster(refined) if layer["faster"] else refined
        case "constrained" if problem.ansatz:
            return ConstrainedOperator(operator, problem.ansatz)
        case "moving" if problem.ansatz and problem.ansatz.frame:
            return MovingFrameOperator(operator, problem.ansatz.frame)
        case "judged":
            return JudgedOperator(operator, _planned(layer["judge"], problem))
    raise ValueError


def _plan(operator: SpectralOperator) -> dict[str, Any]:
    """What the numbers of a spectral operator follow from."""
    return {**stored_plan(operator.plan), "judged": operator.judge is not None, "tolerance": operator.tolerance}


def _planned(stored: dict[str, Any], problem: Problem) -> SpectralOperator:
    """The spectral operator of a stored plan."""
    plan, tolerance = plan_from(stored, problem), float(stored["tolerance"])
    return with_estimate(plan, tolerance) if stored["judged"] else spectral_operator(plan)


def _require_same(operator: Any, rebuilt: Any, problem: Problem) -> None:
    """Refuses to store what would come back as another, as its functions, residuals or ansatz are not the problem's."""
    a = problem.sample(INPUTS, key=jax.random.key(0))
    points = jnp.asarray(problem.blocks[0].points[:POINTS])
    # Answers alone would not tell two bases apart, once both are refined.
    one, other = ([*_arrays(each), np.asarray(each(a, points))] for each in (operator, rebuilt))
    if len(one) != len(other) or not all(map(_close, one, other)):
        raise ConfigError(
            f"This operator is not made of the functions, equations and ansatz of '{problem.name}', which a file does "
            "not hold: save it with the problem that it was made for."
        )


def _arrays(operator: Any) -> list[ndarray]:
    return [np.asarray(leaf) for leaf in jax.tree.leaves(operator) if eqx.is_array(leaf)]


def _close(before: ndarray, after: ndarray) -> bool:
    allowed = CLOSE * np.max(np.abs(before), initial=0.0)
    return before.shape == after.shape and bool(np.allclose(after, before, rtol=0, atol=allowed))
