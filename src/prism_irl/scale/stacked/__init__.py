"""Many fits at once on one GPU."""

from prism_irl.scale.stacked.stack import can_stack, fit_together, worth_stacking

__all__ = ["can_stack", "fit_together", "worth_stacking"]
