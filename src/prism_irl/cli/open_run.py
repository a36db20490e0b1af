"""What `prism segment` and `prism score` share: a fitted run, and new data in its language."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from prism_irl import storage

if TYPE_CHECKING:
    from prism_irl.data import tables
    from prism_irl.models.base import IntentionModel


def open_run(
    run: Path, source: Path, *, unknown_state: bool, method: str | None = None
) -> tuple[IntentionModel, tables.Table]:
    """Load a run folder and read a table with the columns and vocabularies of its fit.

    ``method`` is MODULE:CLASS of a model from outside this package, which somebody trusts.
    """
    from prism_irl.data import tables
    from prism_irl.data.vocabulary import Vocabulary
    from prism_irl.models.persistence import load

    model = load(run, method)
    config = storage.read_json(run / "config.json")
    words = config.get("vocabulary")
    # Labels, groups and times are not needed here; where they have their default names they are found anyway.
    optional = ("intention", "group", "time")
    columns = {role: name for role, name in config.get("data", {}).get("columns", {}).items() if role not in optional}
    states = None if words is None else Vocabulary.from_json(words["states"])
    actions = None if words is None else Vocabulary.from_json(words["actions"])
    return model, tables.read(source, **columns, states=states, actions=actions, unknown_state=unknown_state)
