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
    pairs = [" + ".join(half for half in (entry["switching"], entry["rewards"]) if half) or "–" for entry in entries]
    first, second = (max(map(len, column), default=0) for column in ([entry["id"] for entry in entries], pairs))
    for entry, pair in zip(entries, pairs, strict=True):
        print(f"{entry['id']:<{first}}  {pair:<{second}}  {entry['when']}")
