"""The README and the documents are programs: every Python block runs, in order, in one module per document."""

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PYTHON_BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def python_source(text: str) -> str:
    """The Python blocks of `text` at the lines where they stand, so that an error names the document's own line."""
    lines = [""] * text.count("\n")
    for block in PYTHON_BLOCK.finditer(text):
        first = text.count("\n", 0, block.start(1))
        for offset, line in enumerate(block[1].splitlines()):
            lines[first + offset] = line
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("document", [d for d in DOCUMENTS if PYTHON_BLOCK.search(d.read_text())], ids=lambda d: d.name)
def test_python_blocks_run(document: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    script = tmp_path / f"{document.stem.lower()}.py"
    script.write_text(python_source(document.read_text()))
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(script), run_name="__main__")


def test_blocks_keep_their_lines():
    assert python_source("a\n```python\nx = 1\n```\nb\n```python\ny = 2\n```\n") == "\n\nx = 1\n\n\n\ny = 2\n\n"


def test_the_two_commands_are_targets():
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    named = re.findall(r"\bmake ([\w-]+)", (ROOT / "README.md").read_text())
    assert {"demo", "test"} <= set(named) <= set(targets)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda d: d.name)
def test_links_lead_somewhere(document: Path):
    targets = re.findall(r"\]\((?!https?:|#|mailto:)([^)#\s]+)", document.read_text())
    assert not [target for target in targets if not (document.parent / target).exists()]


def anchors(text: str) -> set[str]:
    """What GitHub calls the sections of a page."""
    titles = re.findall(r"^#+ (.*)", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda d: d.name)
def test_links_to_sections_lead_to_one(document: Path):
    links = re.findall(r"\]\((?!https?:)([^)#\s]*)#([^)\s]+)\)", document.read_text())
    pages = {page: (document.parent / page if page else document).read_text() for page, _ in links}
    assert not [f"{page}#{anchor}" for page, anchor in links if anchor not in anchors(pages[page])]


def test_the_readme_leads_to_every_page():
    named = set(re.findall(r"\]\(docs/([^)#\s]+)", (ROOT / "README.md").read_text()))
    assert named == {page.name for page in (ROOT / "docs").glob("*.md")}


def test_a_section_is_called_as_github_does():
    text = "# Python's numbers\n```python\n# no title\n```\n## Signals, convolutions `tj.lax`\n"
    assert anchors(text) == {"pythons-numbers", "signals-convolutions-tjlax"}
