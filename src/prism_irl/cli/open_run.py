"""What `prism segment` and `prism score` share: a fitted run, and new data in its language."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from prism_irl import storage
from prism_irl.data import tables
from prism_irl.data.vocabulary import Vocabulary
from prism_irl.models.base import IntentionModel
from prism_irl.models.persistence import load
from prism_irl.report.names import read_names


def open_run(run: Path, source: Path, *, unknown_state: bool) -> tuple[IntentionModel, tables.Table]:
    """Load a run folder and read a table with the columns and vocabularies of its fit."""
    model = load(run)
    config = storage.read_json(run / "config.json")
    words = config.get("vocabulary")
    # Labels, groups and times are not needed here; where they have their default names they are found anyway.
    optional = ("intention", "group", "time")
    columns = {role: name for role, name in config.get("data", {}).get("columns", {}).items() if role not in optional}
    states = None if words is None else Vocabulary.from_json(words["states"])
    actions = None if words is None else Vocabulary.from_json(words["actions"])
    return model, tables.read(source, **columns, states=states, actions=actions, unknown_state=unknown_state)


def segmented(model: IntentionModel, table: tables.Table, names: Path | None = None) -> pd.DataFrame:
    """Rows of the table with intention and probabilities, and with the names of a names.json where one is given."""
    given = None if names is None else np.array(read_names(names, model.n_intentions), dtype=object)
    probabilities = model.predict_proba(table.demonstrations)
    labels = probabilities.argmax(axis=1)
    frame = tables.with_posterior(table, labels, probabilities)
    if given is None:
        return frame
    column = "intention_name"
    while column in frame.columns:
        column = f"predicted_{column}"
    # The table's rows may be in another order than the flat steps.
    return frame.assign(**{column: given[labels[np.argsort(table.order)]]})
