"""Plain text: decoded, normalised, without files that are written into it (data_uris.py).

What does not belong here: Markdown, which has structure, and finding encodings (charset.py).
"""

from ingest_assets.extract.assemble import TextBuilder
from ingest_assets.extract.charset import decode_text
from ingest_assets.extract.data_uris import without_long_data
from ingest_assets.extract.sniff import Kind
from ingest_assets.records import Extracted


def extract_text(data: bytes) -> Extracted:
    """Return the text; it has neither pages nor headings. Raises DocumentRejected as `decode_text` does."""
    builder = TextBuilder()
    builder.add(without_long_data(decode_text(data)))
    return builder.build(Kind.TEXT.value)
