"""Recover what an agent wants, and when it changes its mind, from states and actions alone."""

__version__ = "0.1.0"

from prism_irl.data.demonstrations import Demonstrations
from prism_irl.errors import InputError
from prism_irl.mdp import MDP
from prism_irl.models.cloning import BehaviourCloning
from prism_irl.models.dirl import DIRL
from prism_irl.models.features import FeaturePRISM
from prism_irl.models.goals import GoalPRISM
from prism_irl.models.hiql import HIQL
from prism_irl.models.mixture import TrajectoryMixture
from prism_irl.models.persistence import load
from prism_irl.models.prism import PRISM
from prism_irl.models.references import Empirical, NGram, Uniform
from prism_irl.models.single import IAVI, IQL, MaxCausalEnt, MaxEnt
from prism_irl.models.swirl import SWIRL

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
