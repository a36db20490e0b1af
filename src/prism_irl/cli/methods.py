"""`prism methods`: every method by its identifier, the pair that it is, and when to choose it."""

from __future__ import annotations

from prism_irl.cli.options import CommonOptions

KEYS = ("id", "name", "switching", "rewards", "leaks", "takes_intentions", "when")


def methods(*, common: CommonOptions = CommonOptions()) -> None:
    """List the methods that fit and compare know: what each is made of, and when to choose it.

    Example: prism methods --json
    """
    from prism_irl.models import registry

    entries = [{key: getattr(entry, key) for key in KEYS} for entry in registry.entries()]
    if common.json:
        from prism_irl.cli.printing import print_json

        print_json(entries)
        return
    named, pairs = ([entry for entry in entries if ("+" in entry["id"]) is pair] for pair in (False, True))
    made_of = [" + ".join(half for half in (entry["switching"], entry["rewards"]) if half) or "–" for entry in named]
    first, second = (max(map(len, column), default=0) for column in ([entry["id"] for entry in named], made_of))
    for entry, halves in zip(named, made_of, strict=True):
        print(f"{entry['id']:<{first}}  {halves:<{second}}  {entry['when']}")
    if pairs:
        print("\nAny pair can be typed, too (when it switches + what it wants):")
    width = max((len(entry["id"]) for entry in pairs), default=0)
    for entry in pairs:
        print(f"{entry['id']:<{width}}  {entry['when']}")
