"""Licences of everything that is installed beside the package: `make licences`.

What a package says of itself, in its metadata. A licence that would bind whoever passes prism-irl on is marked.
"""

from __future__ import annotations

import re
import sys
from importlib.metadata import Distribution, distributions

BINDING = re.compile(r"\bA?GPL|General Public License", re.IGNORECASE)
PROGRAMS = ("codespell",)
"""Typed by developers; nothing that is passed on imports or contains them."""
LESSER = re.compile(r"LGPL|Lesser", re.IGNORECASE)


def licence_of(package: Distribution) -> str:
    """Licence expression, classifiers or the first line of the licence field."""
    said = package.metadata
    classifiers = [c.rpartition(" :: ")[2] for c in said.get_all("Classifier") or [] if c.startswith("License ::")]
    expression = said.get("License-Expression") or ""
    return expression or ", ".join(classifiers) or (said.get("License") or "not said").strip().splitlines()[0][:60]


def binds(licence: str) -> bool:
    """Whether one licence asks for the same licence of whatever contains the package."""
    return bool(BINDING.search(licence)) and not LESSER.search(licence)


def main() -> int:
    """Print a table; exit code 1 where a licence binds."""
    found = sorted({(d.metadata["Name"], d.version, licence_of(d)) for d in distributions() if d.metadata["Name"]})
    binding = [name for name, _, said in found if all(map(binds, re.split(", | OR ", said))) and name not in PROGRAMS]
    for name, version, said in found:
        print(f"{'!' if name in binding else ' '} {name:32} {version:16} {said}")
    print(f"{len(found)} packages; {len(binding)} with a binding licence{': ' + ', '.join(binding) if binding else ''}")
    return int(bool(binding))


if __name__ == "__main__":
    sys.exit(main())
