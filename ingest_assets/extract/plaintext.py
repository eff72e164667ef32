"""Plain text: decoded, normalised, nothing else.

What does not belong here: Markdown, which has structure, and finding encodings (charset.py).
"""

from ingest_assets.extract.assemble import TextBuilder
from ingest_assets.extract.charset import decode_text
from ingest_assets.extract.sniff import Kind
from ingest_assets.records import Extracted


def extract_text(data: bytes) -> Extracted:
    """Return the text; it has neither pages nor headings. Raises DocumentRejected as `decode_text` does."""
    builder = TextBuilder()
    builder.add(decode_text(data))
    return builder.build(Kind.TEXT.value)
