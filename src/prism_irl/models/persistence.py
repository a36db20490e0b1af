"""Fitted models on disk: config.json (what was asked for) and model.safetensors (what was found).

One checksum ties the two together, with the vocabulary that config.json holds. Versions of the format: 1 had no
checksum and is read for good, its numbers checked one by one; 2 is what is written here; a newer one is refused.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prism_irl import halves, storage
from prism_irl.errors import InputError, brief
from prism_irl.models import registry
from prism_irl.models.base import IntentionModel

if TYPE_CHECKING:
    from torch import Tensor


def save(model: IntentionModel, folder: str | Path, extra: dict[str, Any] | None = None) -> None:
    """Write a fitted model; ``extra`` is kept in config.json beside the model's own parameters."""
    model._check_fitted()
    target = Path(folder)
    with storage.writing(target):
        target.mkdir(parents=True, exist_ok=True)
    config = {
        "format_version": storage.VERSION,
        "method": registry.class_name(type(model)),
        "parameters": halves.parameters_json(model),
        "versions": storage.versions(),
        **(extra or {}),
    }
    storage.save_described(target / "config.json", config, target / "model.safetensors", model._state(), model._info())


def load(folder: str | Path, method: type[IntentionModel] | str | None = None) -> IntentionModel:
    """Read a fitted model back; its output is identical to that of the model that was saved.

    A model from outside the package is found where its module is imported already, where an installed package
    announces it (entry point ``prism_irl.methods``), or as ``method``, the class or its "module:Class" (for a pair with
    a half from outside, that half): a file never decides by itself what is imported.
    """
    source = Path(folder)
    if not source.is_dir():
        raise InputError(f"There is no folder {source}; give the folder that a fit wrote.")
    config, tensors, info = storage.load_described(source / "config.json", source / "model.safetensors")
    check_numbers(source, tensors)
    try:
        known = registry.trusted_class(_class_now(config), method)
        for half in ("switching", "rewards"):
            if ":" in str(config["parameters"].get(half, "")) and isinstance(config["parameters"][half], str):
                halves.check_known(config["parameters"][half])
        parameters = {name: halves.from_json(value) for name, value in config["parameters"].items()}
        model: IntentionModel = known(**parameters)
        model._load_state(tensors, info)
    except (KeyError, TypeError, RuntimeError, ValueError, AttributeError, LookupError, ArithmeticError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(
            f"{source} holds a model that this version cannot read ({brief(error)}); use the version that wrote it."
        ) from error
    return model


def _class_now(config: dict[str, Any]) -> str:
    """The class that a saved model has in this version; in 0.1.0 PRISM was the general estimator."""
    written = str(config.get("versions", {}).get("prism-irl", "0.1.0"))
    former = {"PRISM": "Intentions"} if written.startswith("0.1.") else {}
    return former.get(str(config["method"]), str(config["method"]))


def check_numbers(source: Path, tensors: dict[str, Tensor]) -> None:
    """Refuse NaN and infinities; the value of an action that does not exist is −inf, as a logarithm may be."""
    for name, value in tensors.items():
        if not value.is_floating_point() or bool(value.isfinite().all()):
            continue
        last = name.rpartition(".")[2]
        if last in ("q", "q_", "habit") or last.startswith("log_"):
            value = value[value != -math.inf]
        if not bool(value.isfinite().all()):
            raise InputError(f"The array {name} of the model in {source} is not finite; restore it or fit again.")
