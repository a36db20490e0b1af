"""Recover what an agent wants, and when it changes its mind, from states and actions alone."""

__version__ = "0.1.0"

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
