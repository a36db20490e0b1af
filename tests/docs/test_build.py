"""The pages build without a warning, and no page of the built site needs a network."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("myst_nb", reason="needs the extra docs")
    pytest.importorskip("pydata_sphinx_theme", reason="needs the extra docs")
    folder = tmp_path_factory.mktemp("docs")
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-d", folder / "doctrees"]
    done = subprocess.run([*command, ROOT / "docs", folder / "html"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder / "html"


def test_pages_load_nothing_from_elsewhere(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > 15
    for page in pages:
        loaded = re.findall(r"<(?:script|img|link|iframe)\b[^>]*?(?:src|href)=\"(https?://[^\"]+)\"", page.read_text())
        assert not loaded, (page.name, loaded)


WIDER = """() => [...document.querySelectorAll("article table, article pre, article img, article svg")].filter(item => {
  const around = item.closest(".pst-scrollable-table-container") || item, box = item.getBoundingClientRect();
  const cut = item.tagName === "PRE" && item.scrollWidth > item.clientWidth + 2;
  return cut || box.right > innerWidth || around.scrollWidth > around.clientWidth + 2;
}).map(item => item.tagName + ": " + item.textContent.trim().slice(0, 60))"""


@pytest.mark.slow
def test_pages_fit_a_screen(site: Path) -> None:
    found = [path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))]
    browser_path = os.environ.get("PRISM_BROWSER") or (found[0] if found else pytest.skip("needs a browser"))
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path)
        tab = browser.new_page(viewport={"width": 1280, "height": 900})
        for page in site.rglob("*.html"):
            if page.parent.name != "_static" and "modules" not in page.parts:
                tab.goto(page.as_uri())
                assert tab.evaluate(WIDER) == [], page.name
        browser.close()


def test_every_public_name_is_in_the_reference(site: Path) -> None:
    import prism_irl

    text = "".join(page.read_text() for page in (site / "reference").rglob("*.html"))
    missing = [name for name in prism_irl.__all__ if not re.search(rf'id="prism_irl[\w.]*\.{name}"', text)]
    assert not missing


def test_links_of_the_readme_lead_somewhere() -> None:
    text = (ROOT / "README.md").read_text()
    targets = re.findall(r"\]\((?!https?:|#)([^)#]+)", text)
    assert targets
    assert not [target for target in targets if not (ROOT / target).exists()]


def test_links_of_the_package_page_are_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    # hatchling is there while the package is built, and nowhere else
    plugin = SimpleNamespace(MetadataHookInterface=object)
    monkeypatch.setitem(sys.modules, "hatchling.metadata.plugin.interface", plugin)
    monkeypatch.syspath_prepend(ROOT)
    from hatch_build import absolute

    text = absolute((ROOT / "README.md").read_text(encoding="utf-8"), "https://example.org/x")
    links = re.findall(r"\]\(([^)]+)\)|src=\"([^\"]+)\"", text)
    assert len(links) > 5
    assert all("".join(link).startswith("https://example.org/x/") for link in links)
    assert "git clone https://example.org/x " in text


def test_the_address_of_the_project_stands_in_one_file() -> None:
    address = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["urls"]["Repository"]
    files = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CITATION.cff", "CHANGELOG.md", "SECURITY.md")]
    files += [*(ROOT / "docs").rglob("*.md"), *(ROOT / "src").rglob("*.py")]
    assert not [path.name for path in files if address in path.read_text(encoding="utf-8")]
