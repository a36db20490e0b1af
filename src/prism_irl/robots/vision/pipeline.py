"""Demonstrations from cached embeddings and a tokenizer: what models are fitted on.

The number of each step within its episode is kept as its time and the episode's number as the trajectory's name, so
that a segmentation finds its way back to the frames it belongs to.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt

from prism_irl.data.demonstrations import Demonstrations
from prism_irl.errors import InputError
from prism_irl.robots.vision.embeddings import EmbeddingCache
from prism_irl.robots.vision.rows import KeptRows
from prism_irl.robots.vision.tokenizer import OnProgress, Tokenizer


def fit_tokenizer(
    cache: EmbeddingCache,
    tokenizer: Tokenizer,
    *,
    episodes: npt.ArrayLike | None = None,
    on_progress: OnProgress | None = None,
) -> Tokenizer:
    """Fit a tokenizer to the steps that it keeps.

    Parameters
    ----------
    episodes : (N',) positions in ``cache.episodes``, optional
        Only these, such as those of a training part; all by default.
    """
    keep = kept(cache, tokenizer)
    if episodes is not None:
        trajectory = np.repeat(np.arange(len(cache.episodes)), np.diff(cache.offsets))
        keep &= np.isin(trajectory, np.asarray(episodes))
    return tokenizer.fit(KeptRows(cache.rows(), keep), cache.actions[keep], on_progress=on_progress)


def demonstrations(
    cache: EmbeddingCache, tokenizer: Tokenizer, *, observations: Literal["none", "proprio"] = "none"
) -> Demonstrations:
    """Tokens of every kept step, with true phases as labels where the dataset has them.

    Parameters
    ----------
    observations : str
        "proprio" keeps the recorded states beside the tokens, for models that read observations.
    """
    keep = kept(cache, tokenizer)
    states, actions = tokenizer.encode(KeptRows(cache.rows(), keep), cache.actions[keep])
    lengths = np.add.reduceat(keep.astype(np.int64), cache.offsets[:-1])
    step = np.arange(len(keep)) - np.repeat(cache.offsets[:-1], np.diff(cache.offsets))
    if observations == "proprio" and cache.states is None:
        raise InputError("The dataset has no states to keep as observations; leave --observations out.")
    return Demonstrations(
        states=states,
        actions=actions,
        offsets=np.concatenate([[0], np.cumsum(lengths)]),
        n_states=tokenizer.n_states,
        n_actions=tokenizer.n_actions,
        observations=cache.states[keep] if observations == "proprio" and cache.states is not None else None,
        labels=None if cache.phases is None else cache.phases[keep],
        label_names=cache.phase_names or None,
        times=step[keep],
        trajectory_names=np.array([str(entry["index"]) for entry in cache.episodes]),
    )


def kept(cache: EmbeddingCache, tokenizer: Tokenizer) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Which steps of all episodes become tokens, (n,)."""
    parts = np.split(cache.actions, cache.offsets[1:-1])
    return np.concatenate([tokenizer.kept(part) for part in parts])
