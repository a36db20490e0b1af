"""The recurrence of the history networks, forward and backward, fused."""
