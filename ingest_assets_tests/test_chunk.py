"""The chunker: limits, nothing lost, nothing cut apart, and an edit that disturbs only its surroundings."""

import os
import random
import subprocess
import sys
from collections.abc import Iterator, Sequence
from hashlib import sha256
from itertools import pairwise

import pytest
import regex
from bpe_openai import get_encoding
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ingest_assets.chunk import CHUNKER_VERSION, chunk, chunker_version, count_tokens, split_text
from ingest_assets.records import Extracted, Heading, Page, Span
from ingest_assets.settings import ChunkerSettings
from ingest_assets_tests.texts import paragraphs

DEFAULTS = ChunkerSettings()
SMALL = ChunkerSettings(max_tokens=16, min_tokens=8)
WORD = "".join(random.Random(35).choices("abcdefghijklmnopqrstuvwxyz0123456789", k=60_000))
CHINESE = "管理员每天早上八点检查所有水泵的压力并记录在日志里。" * 400
CLAUSE = "This agreement is confidential and may not be copied without written consent of both parties. "
SECTION = "## Clause\n\n" + CLAUSE * 9 + "\n\n"
FAMILY, FLAG = "👩\u200d👩\u200d👧\u200d👦", "🇩🇪"
LONG_WORDS = {
    "a word": WORD,
    "one letter": "a" * 150_000,
    "emoji": FAMILY * 1500,
    "flags": FLAG * 900,
    "dashes": "-" * 50_000,
}
GOLDEN = "7790f90ed350106c"
CL100K = get_encoding("cl100k_base")


def document(text: str, headings: Sequence[Heading] = (), pages: Sequence[Page] = ()) -> Extracted:
    """Return a document as extraction would."""
    return Extracted(text, "text/plain", pages=tuple(pages), headings=tuple(headings))


def chunks(text: str, sizes: ChunkerSettings = DEFAULTS) -> list[Span]:
    """Return the chunks of a text without headings and pages."""
    return chunk(document(text), sizes)


def long_text() -> str:
    """Return a text that goes through every kind of cut."""
    code = "\n".join(f"def f{n}(x):\n    return x * {n}\n" for n in range(60))
    return "\n\n".join([paragraphs(1, 40), code, CHINESE, WORD[:5000], FAMILY * 300, "क्षि" * 900, paragraphs(2, 9)])


def digest(spans: Sequence[Span]) -> str:
    """Return a hash of every cut and count."""
    facts = [(span.char_start, span.char_end, span.token_count) for span in spans]
    return sha256(repr(facts).encode()).hexdigest()[:16]


def cluster_boundaries(text: str) -> set[int]:
    """Return every position of the text that is not inside a grapheme cluster."""
    return {0, *(match.end() for match in regex.finditer(r"\X", text))}


def assert_sound(text: str, spans: Sequence[Span], sizes: ChunkerSettings) -> None:
    """Fail where a promise that holds for any text is broken."""
    end = 0
    for index, span in enumerate(spans):
        assert span.index == index
        assert span.text.strip()
        assert span.text.endswith(text[span.char_start : span.char_end])
        assert span.token_count == len(CL100K.encode_ordinary(span.text)) <= sizes.max_tokens
        assert not text[end : span.char_start].strip()  # nothing visible is lost
        end = span.char_end
    assert not text[end:].strip()


def test_the_same_text_gives_the_same_chunks_in_another_process() -> None:
    """Two workers must agree, or every run would embed everything again."""
    program = "from ingest_assets_tests.test_chunk import chunks, digest, long_text; print(digest(chunks(long_text())))"
    for seed in ("1", "2"):
        ran = subprocess.run(
            [sys.executable, "-c", program],
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        )
        assert ran.stdout.strip() == digest(chunks(long_text()))


def test_cuts_never_change_under_one_version() -> None:
    """A cut that moves needs a new CHUNKER_VERSION, or documents keep chunks that no code would make again."""
    assert (CHUNKER_VERSION, digest(chunks(long_text()))) == ("anchored-1", GOLDEN)


def test_the_version_names_the_sizes() -> None:
    """Changed sizes are found by comparing the label, so they must be in it."""
    assert chunker_version(DEFAULTS) == "anchored-1/125-500/0"
    assert chunker_version(ChunkerSettings(max_tokens=300, min_tokens=60, overlap_tokens=20)) == "anchored-1/60-300/20"


def test_every_chunk_of_a_long_text_is_within_the_limits() -> None:
    """Too long is refused by the model; too short is found by no question."""
    spans = chunks(long_text())
    assert_sound(long_text(), spans, DEFAULTS)
    assert min(span.token_count for span in spans) >= DEFAULTS.min_tokens


def test_the_chunks_joined_are_the_text() -> None:
    """No character is lost, changed or repeated."""
    assert "".join(span.text for span in chunks(long_text())) == long_text()


@pytest.mark.parametrize("text", LONG_WORDS.values(), ids=LONG_WORDS.keys())
def test_text_without_spaces_is_cut_within_the_limit(text: str) -> None:
    """One endless word must neither hang the tokeniser nor be refused by the model."""
    spans = chunks(text)
    assert_sound(text, spans, DEFAULTS)
    assert "".join(span.text for span in spans) == text
    assert {span.char_end for span in spans} <= cluster_boundaries(text)


def test_chinese_is_cut_after_the_full_stop() -> None:
    """A sentence is not torn where the script has no spaces."""
    spans = chunks(CHINESE)
    assert "".join(span.text for span in spans) == CHINESE
    assert all(span.text.endswith("。") for span in spans)


def test_sentences_end_where_unicode_says() -> None:
    """Neither a number, nor initials, nor a stop before a word in lower case ends a sentence."""
    text = "It cost 3.14 in the U.S. and more, e.g. at sea. “Really?” Yes. 好。」他说。Done! " * 40
    ends = ("sea. ", "”", "Yes. ", "」", "说。", "Done! ")
    found = {cut.end for cut in split_text(text, max_tokens=40, min_tokens=1)}
    assert all(text[:end].endswith(ends) or text[:end].endswith("” ") for end in found)
    assert len(found) > 40


def test_names_of_special_tokens_are_ordinary_text() -> None:
    """A document about tokenisers is a document."""
    text = "The token <|endoftext|> ends a text. " * 100
    assert_sound(text, chunks(text), DEFAULTS)
    assert count_tokens("<|endoftext|>") > 1


def test_a_lone_surrogate_does_no_harm() -> None:
    """Extraction drops them; if one slips through, it costs nothing but itself."""
    assert [span.text for span in chunks("a\ud800b")] == ["a\ud800b"]


@pytest.mark.parametrize("text", ["", " ", "\n\n \t\n", "\u3000" * 9000])
def test_a_blank_text_has_no_chunks(text: str) -> None:
    """Nothing is sent to the model for a page of blanks."""
    assert chunks(text) == []


@pytest.mark.parametrize("blanks", [" " * 200_000, "\n" * 50_000, " \n\t" * 30_000], ids=["spaces", "lines", "mixed"])
def test_blanks_that_fit_no_chunk_are_left_out(blanks: str) -> None:
    """The token limit wins, and no chunk is blank."""
    text = f"First words.{blanks}Last words."
    spans = chunks(text)
    assert_sound(text, spans, DEFAULTS)
    assert (spans[0].text[:5], spans[-1].text[-5:]) == ("First", "ords.")


def test_ordinary_blanks_belong_to_the_text_before_them() -> None:
    """A chunk starts with something to read, except the first, which keeps the blanks before it."""
    text = "\n  " + "\n\n \n".join(paragraphs(seed, 3) for seed in range(20)) + "  \n"
    spans = chunks(text)
    assert "".join(span.text for span in spans) == text
    assert not any(span.text[0].isspace() for span in spans[1:])


def test_a_cluster_longer_than_a_chunk_is_cut_for_the_limit() -> None:
    """A letter under thousands of accents is no reason to be refused by the model."""
    text = "e" + "\u0301" * 3000
    spans = chunks(text)
    assert_sound(text, spans, DEFAULTS)
    assert "".join(span.text for span in spans) == text


def test_a_flag_is_never_cut_in_two() -> None:
    """Flags are pairs, and which two letters belong together is decided from the start of their run."""
    text = "x" + FLAG * 400
    assert all((span.char_end - 1) % 2 == 0 for span in chunks(text))


def test_identical_sections_are_separate_chunks() -> None:
    """Each place is found, also when twelve sections say the same."""
    text = SECTION * 12
    starts = [Heading(2, "Clause", number * len(SECTION)) for number in range(12)]
    spans = chunk(document(text, starts), DEFAULTS)
    assert [span.text for span in spans] == [SECTION] * 12
    assert [span.char_start for span in spans] == [heading.char_start for heading in starts]


def test_a_chunk_ends_before_a_heading_rather_than_a_paragraph() -> None:
    """A section is not mixed with the next one where it is long enough alone."""
    parts = [f"Part {number}\n\n{paragraphs(number, 2)}\n\n" for number in range(8)]
    headings = [Heading(1, f"Part {number}", sum(map(len, parts[:number]))) for number in range(8)]
    spans = chunk(document("".join(parts), headings), DEFAULTS)
    assert {span.char_start for span in spans} <= {heading.char_start for heading in headings}


def test_a_heading_is_not_parted_from_its_text() -> None:
    """A title alone at the end of a chunk answers nothing."""
    parts = [f"Part {number}\n\n{paragraphs(number, 1)}\n\n" for number in range(60)]
    headings = [Heading(2, f"Part {number}", sum(map(len, parts[:number]))) for number in range(60)]
    for span in chunk(document("".join(parts), headings), ChunkerSettings(max_tokens=120, min_tokens=60)):
        assert not span.text.strip().splitlines()[-1].startswith("Part ")


def test_pages_and_headings_are_those_a_reader_would_name() -> None:
    """A citation leads to the right page and section."""
    one, two, three = (paragraphs(seed, 2) for seed in (0, 9, 10))
    text = f"Pumps\n\n{one}\n\nSeals\n\n{two}\n\nTanks\n\n{three}"
    seals, tanks = text.index("Seals"), text.index("Tanks")
    headings = [Heading(1, "Pumps", 0), Heading(2, "Seals", seals), Heading(1, "Tanks", tanks)]
    pages = [Page(1, 0, seals), Page(2, seals, tanks + 20), Page(4, tanks + 20, len(text))]
    spans = chunk(document(text, headings, pages), DEFAULTS)
    found = [(span.text[:5], span.heading, span.page_start, span.page_end) for span in spans]
    assert found == [("Pumps", ("Pumps",), 1, 1), ("Seals", ("Pumps", "Seals"), 2, 2), ("Tanks", ("Tanks",), 2, 4)]


def test_a_text_without_pages_has_none() -> None:
    """None is not page 0."""
    assert {(span.page_start, span.page_end, span.heading) for span in chunks(long_text())} == {(None, None, ())}


def test_overlap_repeats_the_text_before_a_chunk() -> None:
    """What precedes a chunk is in its text, while its positions stay those of its own text."""
    sizes = ChunkerSettings(max_tokens=200, min_tokens=50, overlap_tokens=30)
    text = long_text()
    spans = chunks(text, sizes)
    assert_sound(text, spans, sizes)
    assert "".join(text[span.char_start : span.char_end] for span in spans) == text
    prefixes = [span.text[: len(span.text) - (span.char_end - span.char_start)] for span in spans]
    assert not prefixes[0]
    assert all(prefix.strip() and count_tokens(prefix) <= 30 for prefix in prefixes[1:])
    assert all(text[: span.char_start].endswith(prefix) for span, prefix in zip(spans, prefixes, strict=True))


def test_overlap_moves_no_cut_but_by_its_budget() -> None:
    """Overlap of 100 in 500 cuts where 400 without overlap would."""
    with_overlap = chunks(long_text(), ChunkerSettings(max_tokens=500, min_tokens=125, overlap_tokens=100))
    without = chunks(long_text(), ChunkerSettings(max_tokens=400, min_tokens=125))
    assert [span.char_end for span in with_overlap] == [span.char_end for span in without]


def test_an_edit_disturbs_only_its_surroundings() -> None:
    """One changed word costs a chunk or two, not the rest of the document, wherever it is."""
    text = paragraphs(5, 300)
    before = {span.text for span in chunks(text)}
    assert len(before) > 60
    for at in range(0, len(text), len(text) // 15):
        for new in ("x", "\n\n", paragraphs(6, 2), " A sentence."):
            assert len({span.text for span in chunks(text[:at] + new + text[at:])} - before) <= 5
        assert len({span.text for span in chunks(text[:at] + text[at + 300 :])} - before) <= 5


@pytest.mark.parametrize("kind", ["lines", "Chinese", "unbroken"])
def test_an_edit_of_text_without_paragraphs_disturbs_only_its_surroundings(kind: str) -> None:
    """Logs, tables, scripts without spaces and encoded data are edited too."""
    chance = random.Random(kind)
    text = {
        "lines": "\n".join(f"{n},{chance.randrange(10**6)},{chance.choice('abc')}" for n in range(1800)),
        "Chinese": "".join("".join(chance.choices(CHINESE[:25], k=chance.randrange(9, 40))) + "。" for _ in range(600)),
        "unbroken": WORD[:30_000],
    }[kind]
    before = {span.text for span in chunks(text)}
    assert len(before) > 30
    for at in range(0, len(text), len(text) // 20):
        assert len({span.text for span in chunks(text[:at] + "7" + text[at:])} - before) <= 6
        assert len({span.text for span in chunks(text[:at] + text[at + 60 :])} - before) <= 6


SCRIPTS = (
    "The pump. And a valve, e.g. 3.14! ", "Насос работает. Да? ", "المضخة تعمل. نعم؟ ", "पम्प काम करता है। क्षि ",
    "ปั๊มทำงาน ำ", "水泵。检查！", "ポンプが「動く」。ガ", "👩\u200d👧🇩🇪🇫🇷👍🏽❤️", "e\u0301\u0302a\u0308", "한국어 각ᄀ",
)  # fmt: skip
PARTS = st.one_of(
    st.sampled_from(SCRIPTS),
    st.text(st.characters(exclude_categories=()), max_size=12),
    st.sampled_from([" ", "\n", "\n\n", "\r\n", "\t", "\u2028", "\u00a0", "\x00\x1b\x85", "\u200b\u200d"]),
    st.builds(
        lambda part, times: part * times,
        st.sampled_from([" ", "\n", "a", "-", "水", "🇩🇪", "\u0301", "é", " \n"]),
        st.integers(2, 90),
    ),
    st.text("ab .\n", max_size=60),
)
TEXTS = st.lists(PARTS, max_size=25).map("".join)


@st.composite
def sizes(draw: st.DrawFn) -> ChunkerSettings:
    """Draw settings, small ones mostly."""
    most = draw(st.integers(16, 80))
    return ChunkerSettings(
        max_tokens=most,
        min_tokens=draw(st.integers(1, most // 2)),
        overlap_tokens=draw(st.sampled_from([0, 0, 1, most // 4, most // 2])),
    )


@settings(deadline=None, max_examples=120)
@given(TEXTS, sizes())
@example("👩\u200d👧" * 30, SMALL)
@example("a" + " \n" * 300 + "b", SMALL)
@example("e" + "\u0301" * 90, SMALL)
def test_any_text_is_cut_soundly(text: str, drawn: ChunkerSettings) -> None:
    """Limits, positions and completeness hold for every script and every size."""
    spans = chunks(text, drawn)
    assert_sound(text, spans, drawn)
    assert spans == chunks(text, drawn)


@settings(deadline=None, max_examples=120)
@given(TEXTS, sizes())
@example("🇩🇪" * 60, SMALL)
@example("." + "\u200d\r\n" * 30, SMALL)
def test_no_text_is_cut_inside_a_cluster_that_fits_into_a_chunk(text: str, drawn: ChunkerSettings) -> None:
    """A letter keeps its accents, a family its members, a flag its country."""
    boundaries = sorted(cluster_boundaries(text))
    most = drawn.max_tokens - drawn.overlap_tokens
    clusters = [text[a:b] for a, b in pairwise(boundaries)]
    if max(map(count_tokens, clusters), default=0) <= most:
        assert {cut.end for cut in split_text(text, max_tokens=most, min_tokens=1)} <= set(boundaries)


@settings(deadline=None, max_examples=80)
@given(TEXTS.map(lambda text: regex.sub(r"\s{4,}", "\n\n", text)), sizes())
def test_any_text_without_endless_blanks_is_given_back_whole(text: str, drawn: ChunkerSettings) -> None:
    """Joined, the chunks are the text, to the last blank."""
    spans = chunks(text, drawn)
    assert "".join(text[span.char_start : span.char_end] for span in spans) == (text if text.strip() else "")


def test_pieces_come_one_by_one() -> None:
    """A document of 32 MiB is not held in memory as a million pieces."""
    cuts = split_text("a b. " * 100_000, max_tokens=500, min_tokens=125)
    assert isinstance(cuts, Iterator)
    assert next(cuts).start == 0
