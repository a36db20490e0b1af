"""Fitted models on disk: config.json (what was asked for) and model.safetensors (what was found)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from prism_irl import halves, storage
from prism_irl.errors import InputError
from prism_irl.models import registry
from prism_irl.models.base import IntentionModel


def save(model: IntentionModel, folder: str | Path, extra: dict[str, Any] | None = None) -> None:
    """Write a fitted model; ``extra`` is kept in config.json beside the model's own parameters."""
    model._check_fitted()
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    storage.save_tensors(target / "model.safetensors", model._state(), model._info())
    config = {
        "method": registry.class_name(type(model)),
        "parameters": halves.parameters_json(model),
        "versions": storage.versions(),
        **(extra or {}),
    }
    storage.write_json(target / "config.json", config)


def load(folder: str | Path, method: type[IntentionModel] | str | None = None) -> IntentionModel:
    """Read a fitted model back; its output is identical to that of the model that was saved.

    A model from outside the package is found where its module is imported already, where an installed package
    announces it (entry point ``prism_irl.methods``), or as ``method``, the class or its "module:Class" (for a pair with
    a half from outside, that half): a file never decides by itself what is imported.
    """
    source = Path(folder)
    if not source.is_dir():
        raise InputError(f"There is no folder {source}; give the folder that a fit wrote.")
    config = storage.read_json(source / "config.json")
    tensors, info = storage.load_tensors(source / "model.safetensors")
    try:
        known = registry.trusted_class(str(config["method"]), method)
        for half in ("switching", "rewards"):
            if ":" in str(config["parameters"].get(half, "")) and isinstance(config["parameters"][half], str):
                halves.check_known(config["parameters"][half])
        parameters = {name: halves.from_json(value) for name, value in config["parameters"].items()}
        model: IntentionModel = known(**parameters)
        model._load_state(tensors, info)
    except (KeyError, TypeError, RuntimeError, ValueError, AttributeError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(
            f"{source} holds a model that this version cannot read ({error}); use the version that wrote it."
        ) from error
    return model
