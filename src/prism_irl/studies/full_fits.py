"""Fits to all data, whose maps and labels are looked at: made side by side, and remembered as saved models."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar, cast

from sklearn.base import clone

from prism_irl.data.demonstrations import Demonstrations
from prism_irl.devices import limit_threads
from prism_irl.mdp import MDP
from prism_irl.models.base import IntentionModel
from prism_irl.models.intentions import Intentions
from prism_irl.models.persistence import load, save
from prism_irl.scale import fanout
from prism_irl.scale.stacked import stack as stacked
from prism_irl.studies.cross_validation import data_key, fit_key

Model = TypeVar("Model", bound=IntentionModel)


def fit_to_all(
    models: Sequence[Model], demos: Demonstrations, mdp: MDP | None, *, jobs: int = 1, folder: Path | None = None
) -> list[tuple[str, Model]]:
    """Return a fitted copy of every model, and the name under which ``folder`` remembers it.

    The name is made of everything that the fit depends on: what an earlier run has saved is not fitted again.
    """
    data = data_key(demos, mdp, None)
    names = [fit_key(model, data)[:24] for model in models]
    done: dict[str, Any] = {}
    missing: dict[str, Model] = {}
    for name, model in zip(names, models, strict=True):
        if folder is not None and is_saved(folder / name):
            done[name] = load(folder / name)
        else:
            missing[name] = clone(model)
    for index, fitted in _fits(list(missing.values()), demos, mdp, jobs):
        name = list(missing)[index]
        if folder is not None:  # saved here, because a worker of a cluster need not see this disk
            save(fitted, folder / name)
        done[name] = fitted
    return [(name, done[name]) for name in names]


def is_saved(folder: Path) -> bool:
    """Whether a folder holds a whole model: config.json is written last."""
    return (folder / "config.json").is_file()


def _fits(
    models: Sequence[IntentionModel], demos: Demonstrations, mdp: MDP | None, jobs: int
) -> Iterator[tuple[int, IntentionModel]]:
    """Fit the models, those that can share a GPU at once, and yield each with its number as it is done."""
    together = [] if fanout.on_cluster() else [i for i, m in enumerate(models) if stacked.worth_stacking(m, demos)]
    if len(together) > 1:
        stacked.fit_together([cast(Intentions, models[i]) for i in together], [demos] * len(together), mdp)
        yield from ((i, models[i]) for i in together)
    else:
        together = []
    alone = [i for i in range(len(models)) if i not in together]
    shared = (demos, mdp, fanout.side_by_side(jobs))
    for index, fitted in fanout.spread(_fit, [models[i] for i in alone], shared, jobs=jobs):
        yield alone[index], fitted


def _fit(model: Any, demos: Demonstrations, mdp: MDP | None, parallel: bool) -> Any:
    if parallel:
        limit_threads(1)
    return model.fit(demos, mdp)
