"""Recover what an agent wants, and when it changes its mind, from states and actions alone.

The names below are imported when they are first used (PEP 562): ``import prism_irl`` itself loads neither torch nor
scikit-learn, and a command that needs no model starts at once.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from prism_irl.data.demonstrations import Demonstrations
    from prism_irl.errors import InputError
    from prism_irl.mdp import MDP
    from prism_irl.models import (
        DIRL,
        HIQL,
        IAVI,
        IQL,
        PRISM,
        SWIRL,
        BehaviourCloning,
        Empirical,
        FeaturePRISM,
        GoalPRISM,
        MaxCausalEnt,
        MaxEnt,
        NGram,
        TrajectoryMixture,
        Uniform,
    )
    from prism_irl.models.persistence import load

__version__ = "0.1.0"

__all__ = [
    "DIRL",
    "HIQL",
    "IAVI",
    "IQL",
    "MDP",
    "PRISM",
    "SWIRL",
    "BehaviourCloning",
    "Demonstrations",
    "Empirical",
    "FeaturePRISM",
    "GoalPRISM",
    "InputError",
    "MaxCausalEnt",
    "MaxEnt",
    "NGram",
    "TrajectoryMixture",
    "Uniform",
    "load",
]

_ELSEWHERE = {
    "Demonstrations": "prism_irl.data.demonstrations",
    "InputError": "prism_irl.errors",
    "MDP": "prism_irl.mdp",
    "load": "prism_irl.models.persistence",
}
"""Where a public name lives if not in `prism_irl.models`."""


def __getattr__(name: str) -> Any:
    """Import a public name when it is first asked for."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_ELSEWHERE.get(name, "prism_irl.models")), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
