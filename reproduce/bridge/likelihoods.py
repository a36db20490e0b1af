"""The paper's model on tokens, by number of intentions and network: Tables num_latents and model_type of the paper.

Every fold has codebooks of its own training episodes. Fits go through `cross_validate`: several at a time, together on
a GPU, and finished ones are remembered. As in the paper, the RNN has several seeds and the other networks have one.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from bridge.data import PAPER_BY_K, PAPER_MODEL_TYPE, Bridge, Data, fitted_tokenizer
from harness import build_method
from prism_irl.models.registry import Method
from prism_irl.robots.vision.tokenizer import demonstrations
from prism_irl.studies.cross_validation import Fit, cross_validate, table

REPORTED_NETWORKS_AT = 4
"""K of the paper's Table model_type on Bridge V2."""


def likelihood_table(
    settings: Bridge, data: Data, cache: Path, begin: Callable[[str], None], *, jobs: int = 1
) -> list[dict[str, Any]]:
    """A row per network and K: mean and spread over folds and seeds, and the paper's number where it has one.

    ``cache`` is the folder of finished fits; ``begin`` is told of every fit, with its name.
    """
    asked = {(network, K): _method(settings, network, K) for network in settings.networks for K in settings.sweep}
    several = [method for (network, _), method in asked.items() if network == "rnn"]
    # Longest first, so that no process is left alone with a Transformer at the end.
    one = [method for (network, _), method in reversed(asked.items()) if network != "rnn"]
    rows: list[dict[str, Any]] = []
    for fold, split in enumerate(data.splits[: settings.tested_folds]):
        tokens = data.tokens
        if fold:
            tokens = demonstrations(data.cache, fitted_tokenizer(settings, data.cache, split[0]))

        def tell(fit: Fit, _: int, fold: int = fold) -> None:
            begin(f"likelihood, fold {fold + 1}, {fit.method.name}")

        for methods, seeds in ((one, settings.seeds[:1]), (several, settings.seeds)):
            options: dict[str, Any] = {"splits": [split], "seeds": seeds, "jobs": jobs, "cache": cache}
            rows += cross_validate(tokens, methods, on_fit=tell, **options).rows
    found = table(list(asked.values()), rows)
    return [
        _row(network, K, found[method.id], sum(row["method"] == method.id for row in rows))
        for (network, K), method in asked.items()
    ]


def n_fits(settings: Bridge) -> int:
    """How many fits that are."""
    networks = sum(len(settings.seeds) if network == "rnn" else 1 for network in settings.networks)
    return settings.tested_folds * len(settings.sweep) * networks


def _method(settings: Bridge, network: str, K: int) -> Method:
    method = build_method(f"prism-paper-k{K}-{network}", settings.n_intentions, settings.options())
    if K == 1:
        method.model.set_params(max_iterations=1)  # the gate has nothing to say, and the counts are exact at once
    return method


def _row(network: str, K: int, entry: dict[str, Any], fits: int) -> dict[str, Any]:
    reported = PAPER_BY_K.get(K) if network == "rnn" else None
    if network != "rnn" and K == REPORTED_NETWORKS_AT:
        reported = PAPER_MODEL_TYPE.get(network)
    return {
        "K": K,
        "network": network,
        "predictive_ll": entry["predictive_ll"]["mean"],
        "predictive_ll_std": entry["predictive_ll"]["std"],
        "paper_score": entry["paper_score"]["mean"],
        "paper_score_std": entry["paper_score"]["std"],
        "log_k": float(np.log(K)),
        "mean_dwell": entry["mean_dwell"]["mean"],
        "fits": fits,
        "fit_seconds": entry["fit_seconds"],
        "reported": reported,
    }
