"""Recover what an agent wants, and when it changes its mind, from states and actions alone."""

from prism_irl.demonstrations import Demonstrations
from prism_irl.errors import InputError
from prism_irl.mdp import MDP
from prism_irl.models.prism import PRISM
from prism_irl.models.saving import load

__all__ = ["MDP", "PRISM", "Demonstrations", "InputError", "load"]
__version__ = "0.1.0"
