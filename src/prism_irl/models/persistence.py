"""Fitted models on disk: config.json (what was asked for) and model.safetensors (what was found)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from prism_irl import storage
from prism_irl.errors import InputError
from prism_irl.models.base import METHODS, IntentionModel


def save(model: IntentionModel, folder: str | Path, extra: dict[str, Any] | None = None) -> None:
    """Write a fitted model; ``extra`` is kept in config.json beside the model's own parameters."""
    model._check_fitted()
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    storage.save_tensors(target / "model.safetensors", model.state(), model.info())
    config = {
        "method": type(model).__name__,
        "parameters": model.get_params(deep=False),
        "versions": storage.versions(),
        **(extra or {}),
    }
    storage.write_json(target / "config.json", config)


def load(folder: str | Path) -> IntentionModel:
    """Read a fitted model back; its output is identical to that of the model that was saved."""
    source = Path(folder)
    if not source.is_dir():
        raise InputError(f"There is no folder {source}; give the folder that a fit wrote.")
    config = storage.read_json(source / "config.json")
    tensors, info = storage.load_tensors(source / "model.safetensors")
    try:
        model = METHODS[config["method"]](**config["parameters"])
        model.load_state(tensors, info)
    except (KeyError, TypeError, RuntimeError, ValueError) as error:
        raise InputError(
            f"{source} holds a model that this version cannot read ({error}); use the version that wrote it."
        ) from error
    return model
