"""From vectors to tokens: a codebook for states (embeddings of frames) and one for actions.

State token z(x) = argmin_j ‖x − c_j‖ over |S| centroids; action token likewise over |A| centroids of scaled actions.
The paper clusters raw 7-D actions, whose variance is almost all gripper (98% on BridgeData), so the clusters are little
but open and closed: ``action_scaling="standardised"`` gives every dimension the same say and is the default.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from prism_irl import storage
from prism_irl.data import continuous
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.errors import InputError
from prism_irl.robots.vision.embeddings import EmbeddingCache, Vectors, as_rows

STILL = 1e-4
"""A command below this in every moving dimension is no motion: BridgeData's first actions are within 1e-6 of zero."""
NEARLY_BINARY = 0.9
FORMER = ("method", "backend", "device")
"""Parameters of tokenizers that version 0.1.0 wrote: how clusters were found, which their centroids do not need."""
Tokens = npt.NDArray[np.int64]
OnProgress = Callable[[str, int, int], None]


class Tokenizer:
    """Codebooks of states and actions.

    Parameters
    ----------
    n_states, n_actions : int
        Sizes of the codebooks; the paper uses 1024 to 4096 states and 32 actions.
    action_scaling : str
        "standardised": every dimension has mean 0 and variance 1; "none": raw, as in the paper.
    gripper : int, "auto" or None
        Dimension of the action that opens and closes, made 0 or 1 before scaling (threshold: middle of its range).
        "auto" takes the last one where nine in ten of its values lie at either end of its range; None takes none.
    drop_still_start : bool
        Leave out a first step that commands no motion, as every BridgeData episode begins (see `kept`).
    max_iterations, seed : int
        Of `kmeans`: same seed, same codebooks.
    """

    state_centroids_: Vectors
    action_centroids_: Vectors
    action_mean_: npt.NDArray[np.float64]
    action_scale_: npt.NDArray[np.float64]
    gripper_: int | None
    gripper_range_: tuple[float, float]
    inertia_: dict[str, float]
    TENSORS: ClassVar = ("state_centroids_", "action_centroids_", "action_mean_", "action_scale_")

    def __init__(
        self,
        n_states: int = 2048,
        n_actions: int = 32,
        *,
        action_scaling: Literal["standardised", "none"] = "standardised",
        gripper: int | Literal["auto"] | None = "auto",
        drop_still_start: bool = True,
        max_iterations: int = 25,
        seed: int = 0,
    ) -> None:
        self.n_states, self.n_actions = n_states, n_actions
        self.action_scaling, self.gripper = action_scaling, gripper
        self.drop_still_start = drop_still_start
        self.max_iterations, self.seed = max_iterations, seed

    def fit(self, embeddings: Any, actions: Any, *, on_progress: OnProgress | None = None) -> Self:
        """Learn both codebooks from embeddings, an (n, m) array, npy path or `Rows`, and actions (n, d)."""
        self._check()
        rows, commands = as_rows(embeddings), _matrix(actions, "actions")
        if rows.shape[0] != len(commands):
            raise InputError(f"There are {rows.shape[0]} embeddings for {len(commands)} actions; give one per step.")
        self._fit_scaling(commands)
        scaled = self._scaled(commands)
        distinct = len(np.unique(scaled, axis=0))
        if distinct < self.n_actions:
            raise InputError(
                f"There are {distinct} different actions and {self.n_actions} action tokens; ask for fewer tokens."
            )
        if rows.shape[0] < self.n_states:
            raise InputError(f"There are {rows.shape[0]} steps and {self.n_states} state tokens; ask for fewer tokens.")
        found = {}
        for what, vectors, k in (("states", rows, self.n_states), ("actions", as_rows(scaled), self.n_actions)):
            report = None if on_progress is None else partial(_named, on_progress, what)
            options = {"max_iterations": self.max_iterations, "seed": self.seed}
            found[what] = kmeans(vectors, k, on_progress=report, **options)
        self.inertia_ = {what: one.inertia for what, one in found.items()}
        self.state_centroids_, self.action_centroids_ = found["states"].centroids, found["actions"].centroids
        return self

    def encode(self, embeddings: Any, actions: Any) -> tuple[Tokens, Tokens]:
        """State and action token of every step, (n,) and (n,)."""
        return self.encode_states(embeddings), self.encode_actions(actions)

    def encode_states(self, embeddings: Any) -> Tokens:
        """Nearest state centroid of every row, (n,)."""
        self._check_fitted()
        return nearest(embeddings, self.state_centroids_)

    def encode_actions(self, actions: Any) -> Tokens:
        """Nearest action centroid of every command after scaling, (n,)."""
        self._check_fitted()
        commands, d = _matrix(actions, "actions"), len(self.action_mean_)
        if commands.shape[1] != d:
            raise InputError(f"Actions have {commands.shape[1]} dimensions; the tokenizer learned {d}.")
        return nearest(self._scaled(commands), self.action_centroids_)

    def kept(self, actions: npt.ArrayLike) -> npt.NDArray[np.bool_]:
        """Which steps of one episode become tokens, (T,): all but a first step without motion.

        The gripper dimension does not count as motion: it tells a position and is 1 in BridgeData's first actions.
        """
        commands = _matrix(actions, "actions")
        keep = np.ones(len(commands), dtype=bool)
        moving = np.ones(commands.shape[1], dtype=bool)
        if self.gripper is not None and commands.shape[1] > 1:
            moving[self.gripper if isinstance(self.gripper, int) else -1] = False
        if self.drop_still_start and len(commands) > 1:
            keep[0] = bool((np.abs(commands[0, moving]) > STILL).any())
        return keep

    def save(self, folder: str | Path) -> None:
        """Write tokenizer.json and tokenizer.safetensors into a folder."""
        self._check_fitted()
        path = Path(folder)
        path.mkdir(parents=True, exist_ok=True)
        described = {
            "format_version": storage.VERSION,
            "parameters": {name: value for name, value in vars(self).items() if not name.endswith("_")},
            "gripper": self.gripper_,
            "gripper_range": self.gripper_range_,
            "inertia": self.inertia_,
        }
        tensors = {name: getattr(self, name) for name in self.TENSORS}
        files = path / "tokenizer.json", path / "tokenizer.safetensors"
        storage.save_described(files[0], described, files[1], tensors, {"kind": "tokenizer"})

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Undo `save`."""
        path = Path(folder)
        described, tensors, header = storage.load_described(path / "tokenizer.json", path / "tokenizer.safetensors")
        try:
            made = cls(**{name: value for name, value in described["parameters"].items() if name not in FORMER})
            if header.get("kind") != "tokenizer":
                raise ValueError("another kind of file")
            for name in cls.TENSORS:
                setattr(made, name, tensors[name].numpy())
            made.gripper_ = described["gripper"]
            low, high = described["gripper_range"]
            made.gripper_range_, made.inertia_ = (float(low), float(high)), described["inertia"]
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"{path} does not hold a tokenizer of prism ({error}); tokenize again.") from None
        return made

    def __repr__(self) -> str:
        return f"Tokenizer({self.n_states} states, {self.n_actions} actions, actions {self.action_scaling})"

    def _fit_scaling(self, commands: npt.NDArray[np.float64]) -> None:
        self.gripper_, self.gripper_range_ = _gripper(commands, self.gripper), (0.0, 1.0)
        if self.gripper_ is not None:
            values = commands[:, self.gripper_]
            self.gripper_range_ = (float(values.min()), float(values.max()))
        d = commands.shape[1]
        self.action_mean_, self.action_scale_ = np.zeros(d), np.ones(d)
        if self.action_scaling == "standardised":
            binary = self._binarised(commands)
            self.action_mean_, spread = binary.mean(axis=0), binary.std(axis=0)
            self.action_scale_ = np.where(spread > 1e-8, spread, 1.0)  # a dimension that never moves says nothing

    def _binarised(self, commands: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        if self.gripper_ is None:
            return commands
        binary = commands.copy()
        binary[:, self.gripper_] = commands[:, self.gripper_] > sum(self.gripper_range_) / 2
        return binary

    def _scaled(self, commands: npt.NDArray[np.float64]) -> Vectors:
        return ((self._binarised(commands) - self.action_mean_) / self.action_scale_).astype(np.float32)

    def _check(self) -> None:
        if self.action_scaling not in ("standardised", "none"):
            raise InputError(f"action_scaling is {self.action_scaling!r}; choose standardised or none.")
        for name in ("n_states", "n_actions", "max_iterations"):
            if not isinstance(value := getattr(self, name), int) or value < 1:
                raise InputError(f"{name} is {value!r}; give a whole number of at least 1.")

    def _check_fitted(self) -> None:
        if not hasattr(self, "state_centroids_"):
            raise InputError("The tokenizer has no codebooks yet; call fit first, or load one.")


def _named(on_progress: OnProgress, what: str, step: str, done: int, n: int) -> None:
    on_progress(f"{what}: {step}", done, n)


def _matrix(values: Any, what: str) -> npt.NDArray[np.float64]:
    matrix = np.asarray(values, dtype=np.float64)
    if matrix.ndim != 2 or not len(matrix) or not matrix.shape[1]:
        raise InputError(f"The {what} have shape {matrix.shape}; give one vector per step: (n, d).")
    if not np.isfinite(matrix).all():
        step = int(np.argmin(np.isfinite(matrix).all(axis=1)))
        raise InputError(f"The {what} at step {step} are not finite; remove or repair that step.")
    return matrix


def _gripper(commands: npt.NDArray[np.float64], wanted: int | str | None) -> int | None:
    """Dimension of the gripper: the one asked for, or the last where its values keep to the ends of their range."""
    d = commands.shape[1]
    if wanted is None:
        return None
    if wanted == "auto":
        values = commands[:, -1]
        low, high = values.min(), values.max()
        if d < 2 or high <= low:
            return None
        place = (values - low) / (high - low)
        return d - 1 if ((place < 0.05) | (place > 0.95)).mean() >= NEARLY_BINARY else None
    if isinstance(wanted, str) or not -d <= wanted < d:
        raise InputError(
            f"The gripper is dimension {wanted!r} of an action of {d}; choose {-d} to {d - 1}, auto or none."
        )
    return int(wanted % d)


# -- demonstrations of cached embeddings -------------------------------------------------------------------------------


def fit_tokenizer(
    cache: EmbeddingCache,
    tokenizer: Tokenizer,
    *,
    episodes: npt.ArrayLike | None = None,
    on_progress: OnProgress | None = None,
) -> Tokenizer:
    """Fit a tokenizer to the steps that it keeps, of all episodes or of those at some positions (N',)."""
    keep = kept(cache, tokenizer)
    if episodes is not None:
        trajectory = np.repeat(np.arange(len(cache.episodes)), np.diff(cache.offsets))
        keep &= np.isin(trajectory, np.asarray(episodes))
    return tokenizer.fit(cache.rows(keep), cache.actions[keep], on_progress=on_progress)


def demonstrations(
    cache: EmbeddingCache, tokenizer: Tokenizer, *, observations: Literal["none", "proprio"] = "none"
) -> Demonstrations:
    """Tokens of every kept step, with true phases as labels where the dataset has them.

    "proprio" keeps the recorded states beside the tokens as observations. The number of a step within its episode is
    its time and the episode's number the trajectory's name, so that a segmentation finds its way back to the frames.
    """
    keep = kept(cache, tokenizer)
    states, actions = tokenizer.encode(cache.rows(keep), cache.actions[keep])
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


def granularity(demos: Demonstrations) -> dict[str, dict[str, float]]:
    """How fine tokens are, mean and deviation over trajectories (the paper's Table state_granularity).

    For a trajectory of T steps that visits D distinct states of S: coverage 100·D/S, revisits T/D, singletons
    100·(states visited once)/D: a table over states has seen each of those once and knows nothing.
    """
    counts = [np.unique(demos.states[a:b], return_counts=True)[1] for a, b in pairwise(demos.offsets)]
    found = [(100 * len(n) / demos.n_states, n.sum() / len(n), 100 * float((n == 1).mean())) for n in counts]
    columns = zip(("coverage", "revisits", "singletons"), np.array(found, dtype=np.float64).T, strict=True)
    return {name: {"mean": float(values.mean()), "std": float(values.std())} for name, values in columns}


# -- k-means: on all rows where they are few, else in mini-batches on a sample of them; files are never held -----------

SMALL = 20_000_000
"""Numbers (rows × dimensions) up to which all rows are clustered at once."""
CHUNK = 16384


class Clusters(NamedTuple):
    """What `kmeans` found: means (k, m) and the sum of squared distances of all rows to them."""

    centroids: Vectors
    inertia: float


def kmeans(
    source: Any,
    k: int,
    *,
    seed: int = 0,
    max_iterations: int = 25,
    rows_per_cluster: int = 256,
    on_progress: Callable[[str, int, int], None] | None = None,
) -> Clusters:
    """Cluster the rows of an (n, m) array, of an npy file or of `Rows`.

    Parameters
    ----------
    max_iterations : int
        Stop after so many passes.
    rows_per_cluster : int
        Of large data at most so many random rows per cluster are read: centroids hardly move beyond 256.
    on_progress : function, optional
        Called with what is being done, rows done and rows to do.
    """
    from sklearn.cluster import KMeans, MiniBatchKMeans
    from sklearn.exceptions import ConvergenceWarning

    rows = as_rows(source)
    n, m = rows.shape
    if not 1 <= k <= n:
        raise InputError(f"Cannot make {k} clusters of {n} rows; choose between 1 and {n}.")
    report, few = on_progress or (lambda what, done, total: None), n * m <= SMALL
    kept = np.arange(n)
    if not few and n > rows_per_cluster * k:
        kept = np.sort(np.random.default_rng(seed).choice(n, size=rows_per_cluster * k, replace=False))
    options = {"n_init": 1, "max_iter": max_iterations, "tol": 1e-4, "random_state": seed}
    model = KMeans(k, **options) if few else MiniBatchKMeans(k, batch_size=CHUNK, **options)
    report("clustering", 0, n)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer different rows than clusters: they stay empty
        model.fit(rows.take(kept))
    centroids, inertia, done = model.cluster_centers_.astype(np.float32), 0.0, 0
    if few:
        return Clusters(centroids, float(model.inertia_))
    for chunk in rows.chunks(CHUNK):
        inertia += float(((chunk - centroids[continuous.nearest(chunk, centroids)]) ** 2).sum(dtype=np.float64))
        done += len(chunk)
        report("inertia", done, n)
    return Clusters(centroids, inertia)


def nearest(source: Any, centroids: Vectors) -> npt.NDArray[np.int64]:
    """Index of the nearest centroid of every row, (n,), in chunks."""
    rows = as_rows(source)
    if rows.shape[1] != centroids.shape[1]:
        raise InputError(f"Vectors have {rows.shape[1]} dimensions and the centroids {centroids.shape[1]}.")
    return np.concatenate([continuous.nearest(chunk, centroids) for chunk in rows.chunks(CHUNK)])
