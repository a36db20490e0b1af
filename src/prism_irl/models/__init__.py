"""The named methods: each pairs a switching model with a reward model, or is a plain reference.

Importing the package registers every class by name, so that a saved model of any method can be loaded.
"""

from prism_irl.models.cloning import BehaviourCloning
from prism_irl.models.dirl import DIRL
from prism_irl.models.features import FeaturePRISM
from prism_irl.models.goals import GoalPRISM
from prism_irl.models.hiql import HIQL
from prism_irl.models.mixture import TrajectoryMixture
from prism_irl.models.prism import PRISM
from prism_irl.models.references import Empirical, NGram, Uniform
from prism_irl.models.single import IAVI, IQL, MaxCausalEnt, MaxEnt
from prism_irl.models.swirl import SWIRL

__all__ = [
    "DIRL",
    "HIQL",
    "IAVI",
    "IQL",
    "PRISM",
    "SWIRL",
    "BehaviourCloning",
    "Empirical",
    "FeaturePRISM",
    "GoalPRISM",
    "MaxCausalEnt",
    "MaxEnt",
    "NGram",
    "TrajectoryMixture",
    "Uniform",
]
