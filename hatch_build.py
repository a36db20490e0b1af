"""README for a package index: its links and images lead to the repository that pyproject.toml names."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface


def absolute(text: str, repository: str) -> str:
    """README with the addresses of what it links to; images by their raw files."""
    text = re.sub(r'src="(?!https?:)([^"]+)"', rf'src="{repository}/raw/main/\1"', text)
    text = re.sub(r"\]\((?!https?:|#)([^)]+)\)", rf"]({repository}/blob/main/\1)", text)
    return text.replace("ADDRESS-OF-THE-REPOSITORY", repository)


class ReadmeHook(MetadataHookInterface):
    """Sets the field `readme`, which is dynamic."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Write README with whole addresses into the metadata."""
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        repository = metadata["urls"]["Repository"]
        metadata["readme"] = {"content-type": "text/markdown", "text": absolute(text, repository)}
