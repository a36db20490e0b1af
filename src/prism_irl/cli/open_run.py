"""What `prism segment` and `prism score` share: a fitted run, and new data in its language."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cyclopts import Parameter

from prism_irl import storage

if TYPE_CHECKING:
    from prism_irl.data import tables
    from prism_irl.data.demonstrations import Demonstrations
    from prism_irl.models.base import IntentionModel


@Parameter(name="*")
@dataclass(frozen=True)
class FittedOptions:
    """How a fitted model reads new data."""

    method: str | None = None
    "MODULE:CLASS of the model, where it is not one of this package."
    unknown_state: bool = False
    "Accept states that the fit never saw; there all intentions act uniformly."

    def open(self, run: Path, source: Path) -> tuple[IntentionModel, tables.Table]:
        """Load a run folder and read a table with the columns and vocabularies of its fit."""
        from prism_irl.data import table_files, tables
        from prism_irl.data.vocabulary import Vocabulary
        from prism_irl.models.persistence import load

        model = load(run, self.method)
        config = storage.read_json(run / "config.json")
        # New data need not have labels, groups and times; where they are there they are read: times give the order.
        there = table_files.column_names(source)
        columns = config.get("data", {}).get("columns", {})
        optional = ("intention", "group", "time")
        read = {role: name for role, name in columns.items() if role not in optional or there is None or name in there}
        if there is not None and "time" in columns and "time" not in read:
            read.pop("max_gap", None)
        if (words := config.get("vocabulary")) is not None:
            read |= {role: Vocabulary.from_json(words[role]) for role in ("states", "actions")}
        table = tables.read(source, **read, unknown_state=self.unknown_state)
        if config.get("world") and not self.unknown_state:
            _check_actions(model, table.demonstrations, run)
        return model, table


def _check_actions(model: IntentionModel, demos: Demonstrations, run: Path) -> None:
    """An action that does not exist in the world of the fit would have probability zero; say where it is instead."""
    from prism_irl.cli.world import allow

    valid = getattr(model, "valid_actions_", None)
    if valid is not None and valid.shape == (demos.n_states, demos.n_actions):
        allow(demos, valid, f"the fit {run.name}")
