"""What is each intention after? Policies and rewards per intention.

`REWARDS` is the only place that spells their names: new ones are a file with its options class, and a line here.
"""

from prism_irl.halves import Half

REWARDS: dict[str, Half] = {
    "tabular": Half("prism_irl.rewards.options:Tabular", "free policies, rewards solved by IAVI: predicts best"),
    "iql": Half("prism_irl.rewards.options:ModelFree", "free policies, rewards learned by IQL: no dynamics needed"),
    "soft-1": Half("prism_irl.rewards.options:SoftStates", "a planned reward on states: means more, predicts less"),
    "soft-2": Half("prism_irl.rewards.options:SoftTransitions", "a planned reward on transitions"),
    "goals": Half("prism_irl.rewards.options:Goals", "a few places to reach, on top of a shared habit: explains best"),
    "places": Half("prism_irl.rewards.options:Places", "goals that are places; how many there are is found"),
    "features": Half("prism_irl.rewards.options:Features", "policies on observation vectors: robots, fine states"),
    "landmarks": Half("prism_irl.rewards.options:Landmarks", "places to reach in a continuous world, around walls"),
    "windows": Half("prism_irl.rewards.options:Windows", "seconds of movement around a step: gestures of recordings"),
}
"""Name → options class and when to choose it."""
