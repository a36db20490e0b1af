"""Recover what an agent wants, and when it changes its mind, from states and actions alone."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from prism_irl.cli.analyze import analyze
    from prism_irl.data.demonstrations import Demonstrations
    from prism_irl.errors import InputError
    from prism_irl.mdp import MDP
    from prism_irl.models.cloning import BehaviourCloning
    from prism_irl.models.dirl import DIRL
    from prism_irl.models.intentions import Intentions
    from prism_irl.models.presets import HIQL, PRISM, SWIRL, FeaturePRISM, GoalPRISM, TrajectoryMixture
    from prism_irl.models.references import Empirical, NGram, Uniform
    from prism_irl.models.registry import load
    from prism_irl.models.single import IAVI, IQL, MaxCausalEnt, MaxEnt

__version__ = "0.2.0"

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
    "Intentions",
    "MaxCausalEnt",
    "MaxEnt",
    "NGram",
    "TrajectoryMixture",
    "Uniform",
    "analyze",
    "load",
]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: importing the package costs nothing until a model is needed."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    where = {
        "Demonstrations": "data.demonstrations",
        "InputError": "errors",
        "MDP": "mdp",
        "analyze": "cli.analyze",
        "load": "models.registry",
    }
    if name in where:
        found = getattr(import_module(f"{__name__}.{where[name]}"), name)
    else:
        from prism_irl.models import registry

        found = registry.class_of(name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
