"""Draws of a bootstrap whose refits are made at once on a GPU (`scale.stacked.chains`)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch

from prism_irl.data.demonstrations import Demonstrations
from prism_irl.evaluation.rewards import state_rewards
from prism_irl.labels import ari, match, segments
from prism_irl.models.intentions import Intentions
from prism_irl.scale.stacked.chains import Resamples
from prism_irl.studies.intervals import Draw, draw_units, reordered, units_of

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


def stacked_draws(
    indices: Sequence[int],
    model: Intentions,
    demos: Demonstrations,
    labels: IntArray,
    seed: int,
    device: torch.device | str = "cuda",
) -> Draw:
    """What `intervals.one_draw` gives for each of the resamples, (n, …) per name."""
    unit, n_units, _ = units_of(demos)
    times = np.stack([draw_units(n_units, seed, index)[unit] for index in indices])
    stack = Resamples(model, demos, times, device)
    stack.run()
    weights = torch.from_numpy(times.astype(np.float64)).to(stack.device)
    smoothed, moves, likelihood = stack.beliefs
    usage = torch.einsum("fn,fnk->fk", weights, smoothed.sum(2)).cpu().numpy()
    pairs = torch.einsum("fn,fnjk->fjk", weights, moves).cpu().numpy()
    own = stack.flat(smoothed.argmax(-1))
    scores = likelihood.sum(2).cpu().numpy()
    found = []
    for f in range(len(times)):
        draw = numbers(usage[f], pairs[f], own[f], demos, times[f])
        again = stack.refitted(f)
        rewards = state_rewards(again)
        if rewards is not None:
            draw |= {"rewards": rewards, "values": again.values_}
        K = model.n_intentions
        order = np.argsort(match(labels, own[f], K, K).mapping)
        draw = {name: reordered(name, value, order) for name, value in draw.items()}
        out = times[f] == 0
        draw["new_units"] = np.array(scores[f, out].sum() / demos.lengths[out].sum() if out.any() else np.nan)
        draw["agreement"] = np.array(ari(labels, own[f]))
        found.append(draw)
    return {name: np.stack([draw[name] for draw in found]) for name in found[0]}


def numbers(steps: FloatArray, pairs: FloatArray, labels: IntArray, demos: Demonstrations, times: IntArray) -> Draw:
    """Usage, dwell, switch rate and kernel of expected steps (K,) and moves (K, K), as in `evaluation.units`."""
    found: Draw = {"usage": steps / steps.sum()}
    if len(steps) > 1:
        leaves, K = pairs.sum(axis=1), len(steps)
        exits = leaves - np.diagonal(pairs)
        cut = segments(labels, demos.offsets)
        length, number = (
            np.bincount(cut.labels, weights=times[cut.trajectories] * each, minlength=K)
            for each in (cut.lengths, np.ones(len(cut.lengths)))
        )
        with np.errstate(divide="ignore", invalid="ignore"):
            found |= {"dwell": length / number, "switch_rate": np.array(exits.sum() / leaves.sum())}
            found["kernel"] = pairs / leaves[:, None]
    return found
