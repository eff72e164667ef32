"""A section of the results: what was measured, the target, and a table that is printed as its rows are found.

What does not belong here: measuring. Sections are replaced one by one, so that one figure can be measured again alone.
"""

import re
from dataclasses import dataclass, field
from pathlib import Path

RESULTS = Path(__file__).with_name("results.md")


@dataclass
class Section:
    """One figure's part of results.md; `topic` names it for ever, `detail` is of this time."""

    topic: str
    detail: str
    about: str
    columns: tuple[str, ...] = ("figure", "value")
    rows: list[str] = field(default_factory=list)
    subject: str = "Embedding engine"

    def __post_init__(self) -> None:
        print(f"\n{self.title}\n\n{self.about}\n\n{self._head}", flush=True)

    @property
    def title(self) -> str:
        """The heading."""
        return f"{self._beginning} {self.detail}"

    @property
    def _beginning(self) -> str:
        return f"### {self.subject}, {self.topic}:"

    @property
    def _head(self) -> str:
        return _row(self.columns) + "\n" + "|---" * len(self.columns) + "|"

    def add(self, *cells: object) -> None:
        """Add a row and print it."""
        self.rows.append(_row(cells))
        print(self.rows[-1], flush=True)

    def write(self) -> None:
        """Put the section into the results, in place of an earlier one on the same topic."""
        section = "\n".join([self.title, "", self.about, "", self._head, *self.rows, ""])
        text = RESULTS.read_text(encoding="utf-8")
        earlier = re.search(rf"^{re.escape(self._beginning)}.*?(?=^#{{2,3}} |\Z)", text, re.MULTILINE | re.DOTALL)
        if earlier is None:
            text = f"{text.rstrip()}\n\n{section}"
        else:
            rest = text[earlier.end() :]
            text = text[: earlier.start()] + section + (f"\n{rest}" if rest else "")
        RESULTS.write_text(text, encoding="utf-8")


def _row(cells: tuple[object, ...]) -> str:
    return f"| {' | '.join(str(cell) for cell in cells)} |"
