"""What `prism segment` and `prism score` share: a fitted run, and new data in its language."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cyclopts import Parameter

from prism_irl import storage
from prism_irl.cli.options import UNREAD, ColumnOptions
from prism_irl.errors import InputError

if TYPE_CHECKING:
    from prism_irl.data.demonstrations import Demonstrations
    from prism_irl.data.read import Table
    from prism_irl.models.base import IntentionModel


@Parameter(name="*")
@dataclass(frozen=True)
class FittedOptions:
    """How a fitted model reads new data."""

    method: str | None = None
    "MODULE:CLASS of the model, where it is not one of this package."
    time: str | None = None
    "Column to sort the steps of a trajectory by [default: the one that the fit was sorted by]."
    unknown_state: bool = False
    "Accept states that the fit never saw; there all intentions act uniformly."
    intention: str | None = None
    "Column with true intentions, for evaluation [default: intention, if there is one]."

    def open(self, run: Path, source: Path) -> tuple[IntentionModel, Table]:
        """Load a run folder and read a table with the columns and vocabularies of its fit."""
        from prism_irl.cli.sources import read_rows, tell_notes
        from prism_irl.data.covariates import Inputs
        from prism_irl.data.read import read_data
        from prism_irl.data.vocabulary import Vocabulary
        from prism_irl.models.persistence import load

        model = load(run, self.method)
        config = storage.read_object(run / "config.json")
        read = {role: name for role, name in _columns(config).items() if role != "labels"}
        if self.time is not None:
            read["time"] = self.time
        if self.intention is not None:
            read["intention"] = self.intention
        if (words := config.get("vocabulary")) is not None:
            read |= {role: Vocabulary.from_json(words[role]) for role in ("states", "actions")}
        lacking = ("group",) if self.intention is not None else ("intention", "group")
        if "observe" in read:  # continuous data have no vocabularies
            own = {role: name for role, name in read.items() if role not in ("states", "actions")}
            table = read_rows(source, **own, may_lack=lacking)
            tell_notes(table)
            return model, table
        table = read_data(source, **read, unknown_state=self.unknown_state, may_lack=lacking)
        if (inputs := config.get("data", {}).get("inputs")) is not None:
            table = Inputs.from_json(inputs).apply(table)
        if config.get("world") and not self.unknown_state:
            _check_actions(model, table.demonstrations, run)
        return model, table


def _columns(config: dict[str, Any]) -> dict[str, Any]:
    """Columns that the fit was told of, its order in time among them; new data may come without labels and groups."""
    data = config.get("data", {})
    columns = data.get("columns", {}) if isinstance(data, dict) else None
    roles = {field.name for field in fields(ColumnOptions)} - set(UNREAD)
    if not isinstance(columns, dict) or not set(columns) <= roles:
        raise InputError("config.json of the run does not say which columns were fitted; restore it or fit again.")
    return dict(columns)


def _check_actions(model: IntentionModel, demos: Demonstrations, run: Path) -> None:
    """An action that does not exist in the world of the fit would have probability zero; say where it is instead."""
    from prism_irl.cli.world import allow

    valid = getattr(model, "valid_actions_", None)
    if valid is not None and valid.shape == (demos.n_states, demos.n_actions):
        allow(demos, valid, f"the fit {run.name}")
