"""The main job through the command line: what a user does to documents, and what the index says afterwards."""

import pytest

from ingest_assets_tests.bombs import endless_pdf, growing_pdf, long_docx, slow_html
from ingest_assets_tests.fixtures_deployment import Deployment
from ingest_assets_tests.texts import paragraphs

PUMPS = "# Pumps\n\nThe warehouse in Halden keeps three spare pumps on the lower shelf.\n\n" + paragraphs(1, 12)
TARIFFS = "# Tariffs\n\nHouseholds pay a fixed charge of 412 crowns a year for their meter.\n\n" + paragraphs(2, 12)

QUESTION = "which warehouse keeps three spare pumps on the lower shelf"

CHUNKS = """
    SELECT d.source_key, c.chunk_index, c.text, c.generation = d.generation AS is_current, p.version
    FROM ingest.documents d JOIN ingest.chunks c USING (document_id)
    LEFT JOIN LATERAL (SELECT string_agg(embedding_model_version, ',') AS version
                       FROM ingest.chunk_vectors v WHERE v.chunk_id = c.chunk_id) p ON true
    ORDER BY 1, 2
"""


def served(deployment: Deployment) -> list[dict[str, object]]:
    """Return the rows that readers see."""
    return deployment.query("SELECT source_key, chunk_index, text FROM serving.index_1 ORDER BY 1, 2")


def test_a_dropped_document_is_found_by_a_question(deployment: Deployment) -> None:
    """The whole way from a file to an answer, and a status that adds up."""
    deployment.write("manuals/pumps.md", PUMPS)
    deployment.write("tariffs.txt", TARIFFS)
    result = deployment.json("run")
    status = deployment.json("status")
    [best, *_] = deployment.json("search", QUESTION, "-k", "3")
    assert best["document"] == "manuals/pumps.md"
    assert "lower shelf" in best["text"]
    assert status["documents"] == {"total": 2, "complete": 2, "pending": 0, "partial": 0, "rejected": 0}
    assert status["vectors"] == {"wordllama-256-v1": status["chunks"]}
    assert status["dead_letters"] == {"open": 0, "by_reason": {}}
    assert status["models"]["active"] == "wordllama-256-v1"
    assert status["source"]["objects"] == 2
    assert result["embedded"] == len({row["text"] for row in deployment.query(CHUNKS)})
    assert all(check["passed"] for check in result["checks"])


def test_a_second_run_sends_nothing(deployment: Deployment) -> None:
    """What is there is not paid for again."""
    deployment.write("pumps.md", PUMPS)
    deployment.command("run")
    before = deployment.query(CHUNKS)
    again = deployment.json("run")
    assert (again["planned"], again["embedded"], again["sent_tokens"], again["run_ids"]) == (0, 0, 0, [])
    assert deployment.query(CHUNKS) == before
    assert "0 texts sent" in deployment.command("run")


def test_an_edit_replaces_only_what_it_touches(deployment: Deployment) -> None:
    """The index follows the edit, old text is not served any more, and untouched chunks are not paid for again."""
    deployment.write("pumps.md", PUMPS)
    deployment.command("run")
    before = {row["text"] for row in served(deployment)}
    deployment.write("pumps.md", PUMPS.replace("three spare pumps", "seven spare pumps"))
    result = deployment.json("run")
    after = {row["text"] for row in served(deployment)}
    assert 0 < len(before & after) < len(before)
    assert result["embedded"] == len(after - before)
    assert any("seven spare pumps" in text for text in after)
    assert not any("three spare pumps" in row["text"] for row in deployment.query(CHUNKS))


def test_a_shortened_document_leaves_nothing_of_its_end(deployment: Deployment) -> None:
    """Chunks, vectors and served rows of removed text are gone."""
    deployment.write("pumps.md", PUMPS)
    deployment.command("run")
    long = len(served(deployment))
    deployment.write("pumps.md", PUMPS[: len(PUMPS) // 3])
    deployment.command("run")
    rows = deployment.query(CHUNKS)
    assert len(rows) == len(served(deployment)) < long
    assert all(row["is_current"] for row in rows)
    shown = deployment.json("show", "pumps.md")
    assert "".join(chunk["text"] for chunk in shown["chunks"]) == shown["text"]


def test_a_rename_sends_nothing(deployment: Deployment) -> None:
    """The new name takes over the vectors of the old one, which is then gone with a receipt."""
    path = deployment.write("old.md", PUMPS)
    deployment.command("run")
    path.rename(deployment.inbox / "new name.md")
    result = deployment.json("run")
    assert (result["embedded"], result["deleted"]) == (0, 1)
    assert result["reused"] == result["planned"] > 0
    assert {row["source_key"] for row in served(deployment)} == {"new name.md"}
    assert {row["source_key"] for row in deployment.query(CHUNKS)} == {"new name.md"}


def test_a_deleted_document_is_gone_at_every_version_with_a_receipt(deployment: Deployment) -> None:
    """No chunk, no vector and no served row stays behind; the receipt says how many there were."""
    deployment.write("kept.md", TARIFFS)
    path = deployment.write("gone.md", PUMPS)
    deployment.command("run")
    chunks = deployment.json("status", "gone.md")["chunks"]
    path.unlink()
    result = deployment.json("run")
    assert result["deleted"] == 1
    assert {row["source_key"] for row in served(deployment)} == {"kept.md"}
    [receipt] = deployment.query("SELECT source_uri, cause, removed FROM ingest.deletion_receipts")
    assert receipt["removed"]["chunks"] == receipt["removed"]["chunk_vectors/wordllama-256-v1"] == chunks
    [tombstone] = deployment.query("SELECT text, metadata, status FROM ingest.documents WHERE source_key = 'gone.md'")
    assert tombstone == {"text": None, "metadata": {}, "status": "deleted"}
    assert deployment.json("status")["documents"]["total"] == 1


def test_a_document_that_comes_back_is_indexed_again(deployment: Deployment) -> None:
    """A tombstone is no obstacle."""
    path = deployment.write("pumps.md", PUMPS)
    deployment.write("tariffs.md", TARIFFS)
    deployment.command("run")
    path.unlink()
    deployment.command("run")
    deployment.write("pumps.md", PUMPS)
    deployment.command("run")
    assert deployment.json("status", "pumps.md")["status"] == "complete"
    assert deployment.json("search", QUESTION, "-k", "1")[0]["document"] == "pumps.md"


def test_an_edit_that_makes_a_document_unreadable_leaves_the_old_text_served(deployment: Deployment) -> None:
    """Readers keep what was good; status, dead letter and check say what is wrong."""
    deployment.write("pumps.md", PUMPS)
    deployment.command("run")
    before = served(deployment)
    deployment.write("pumps.md", bytes(range(256)) * 20)
    result = deployment.json("run", code=1)
    status = deployment.json("status", "pumps.md", code=1)
    assert served(deployment) == before
    assert (status["status"], status["reason"]) == ("rejected", "unsupported_type")
    assert status["published_generation"] == status["generation"] == 1
    assert [check["check"] for check in result["checks"] if not check["passed"]] == ["unresolved_dead_letters"]
    deployment.write("pumps.md", TARIFFS)
    deployment.command("run")
    assert deployment.json("status", "pumps.md")["status"] == "complete"


def test_a_bad_document_harms_no_other(deployment: Deployment) -> None:
    """Its reason is shown, its neighbours are searchable."""
    deployment.write("good.md", PUMPS)
    deployment.write("empty.txt", b"")
    deployment.write("picture.pdf", b"\x89PNG\r\n\x1a\n" + bytes(200))
    deployment.command("run", code=1)
    status = deployment.json("status", code=1)
    assert status["documents"] == {"total": 3, "complete": 1, "pending": 0, "partial": 0, "rejected": 2}
    assert status["dead_letters"]["by_reason"] == {"empty_document": 1, "unsupported_type": 1}
    assert deployment.json("search", QUESTION, "-k", "1")[0]["document"] == "good.md"
    shown = deployment.json("show", "empty.txt")
    assert (shown["status"], shown["reason"], shown["chunks"]) == ("rejected", "empty_document", [])


@pytest.mark.parametrize("count", [60, pytest.param(500, marks=pytest.mark.soak)])
def test_five_bombs_in_a_run_cost_five_documents(deployment: Deployment, count: int) -> None:
    """Endless, huge and slow files are rejected with their reasons; everybody else in the run is searchable."""
    deployment.configure('[source]\nurl = "inbox"\n[extract]\ntimeout_seconds = 3\nmemory_limit_mb = 32\n')
    bombs = {
        "005.pdf": endless_pdf(),
        "006.pdf": growing_pdf(),
        "025.html": slow_html(),
        "026.docx": long_docx(100_000),
        "049.pdf": endless_pdf(),
    }
    for number in range(count - len(bombs)):
        deployment.write(f"{number:03}.md", f"# Note {number}\n\n" + paragraphs(number, 2))
    for key, content in bombs.items():
        deployment.write(key, content)
    deployment.command("run", code=1)
    status = deployment.json("status", code=1)
    assert (status["documents"]["complete"], status["documents"]["rejected"]) == (count - 5, 5)
    letters = {letter["document"]: letter["reason"] for letter in deployment.json("dead-letters", "list")}
    assert set(letters) == set(bombs)
    assert set(letters.values()) <= {"timeout", "too_large"}
    assert letters["026.docx"] == "too_large"


def test_equal_texts_in_different_documents_are_sent_once(deployment: Deployment) -> None:
    """Two copies are two documents that share what was paid for."""
    deployment.write("a.md", PUMPS)
    deployment.write("b.md", PUMPS)
    result = deployment.json("run")
    status = deployment.json("status")
    assert result["embedded"] * 2 == status["chunks"] == status["vectors"]["wordllama-256-v1"]


def test_a_second_version_is_built_beside_the_first(deployment: Deployment) -> None:
    """A version added to the settings is filled by the next run, and readers keep the first."""
    deployment.write("pumps.md", PUMPS)
    deployment.command("run")
    toml = (deployment.folder / "ingest.toml").read_text()
    model = '\n[[models]]\nversion = "{}"\nprovider = "local"\nmodel = "wordllama-l2-supercat"\ndimensions = {}\n'
    deployment.configure(toml + model.format("wordllama-256-v1", 256) + model.format("wordllama-64-v1", 64))
    plan = deployment.json("plan", "--model", "wordllama-64-v1")
    result = deployment.json("run")
    status = deployment.json("status")
    assert result["embedded"] == plan["units"] > 0
    assert status["vectors"] == {"wordllama-256-v1": status["chunks"], "wordllama-64-v1": status["chunks"]}
    assert status["models"]["active"] == "wordllama-256-v1"
    assert deployment.json("search", QUESTION, "--model", "wordllama-64-v1")[0]["document"] == "pumps.md"


def test_dead_letters_can_be_retried_and_resolved(deployment: Deployment) -> None:
    """`resolve` makes the noise stop, `retry` makes the next run try again."""
    deployment.write("good.md", PUMPS)
    deployment.write("tiny.txt", "OK.")
    deployment.command("run", code=1)
    [letter] = deployment.json("dead-letters", "list")
    assert (letter["document"], letter["stage"], letter["reason"]) == ("tiny.txt", "extract", "empty_document")
    deployment.configure('[source]\nurl = "inbox"\n[extract]\nmin_characters = 1\n')
    assert deployment.json("dead-letters", "retry", "tiny.txt") == {"reopened": 1}
    deployment.command("run")
    assert deployment.json("dead-letters", "list") == []
    assert deployment.json("status", "tiny.txt")["status"] == "complete"
    deployment.write("empty.txt", b"")
    deployment.command("run", code=1)
    assert deployment.json("dead-letters", "resolve", "--reason", "empty_document") == {"resolved": 1}
    deployment.command("run")


def test_many_vanished_documents_are_withheld_until_somebody_approves(deployment: Deployment) -> None:
    """A bucket that was emptied by accident does not empty the index."""
    for number in range(15):
        deployment.write(f"{number}.txt", f"Note {number}. " + paragraphs(number, 1))
    deployment.command("run")
    for path in list(deployment.inbox.iterdir())[:13]:
        path.unlink()
    result = deployment.json("run", code=1)
    assert result["discovery"]["deletions_withheld"] == 13
    assert deployment.json("status")["documents"]["total"] == 15
    assert [check["check"] for check in result["checks"] if not check["passed"]] == ["source_reconciliation"]
    deployment.command("run", "--approve-deletions")
    assert deployment.json("status")["documents"]["total"] == 2


def test_a_plan_above_the_limit_is_refused_with_the_way_to_approve_it(deployment: Deployment) -> None:
    """Nothing is spent by surprise."""
    deployment.write("pumps.md", PUMPS)
    deployment.configure('[source]\nurl = "inbox"\n[limits]\nmax_units_per_run = 1\n')
    result = deployment.json("run", code=1)
    [failed] = result["failed_runs"]
    assert result["embedded"] == 0
    assert "--approve-units" in failed["message"]
    assert "approved_units: " in failed["message"]  # of the UI
    approved = deployment.json("plan")["units"]
    assert deployment.json("run", "--approve-units", str(approved))["embedded"] == approved


def test_other_headings_over_the_same_text_are_a_new_generation(deployment: Deployment) -> None:
    """Cuts may move although no letter changed, and the documents behind it are not held up."""
    parts = [paragraphs(number, 3) for number in range(6)]
    page = "<html><head><title>T</title></head><body>" + "".join(
        f"<p>Part {number} of the manual</p><p>{part}</p>" for number, part in enumerate(parts)
    )
    deployment.write("a.html", page)
    deployment.command("run")
    deployment.write("a.html", page.replace("<p>Part", "<h2>Part").replace("of the manual</p>", "of the manual</h2>"))
    deployment.write("b.txt", TARIFFS)
    deployment.command("run")
    assert deployment.json("status")["documents"]["complete"] == 2
    shown = deployment.json("show", "a.html")
    headings = {tuple(chunk["heading"]) for chunk in shown["chunks"]}
    assert headings & {(f"Part {number} of the manual",) for number in range(6)}
    assert "".join(chunk["text"] for chunk in shown["chunks"]) == shown["text"]


def test_a_new_title_is_served_without_sending_anything(deployment: Deployment) -> None:
    """What readers see beside the text follows the document too."""
    page = "<html><head><title>{}</title></head><body><p>" + paragraphs(1, 4) + "</p></body></html>"
    deployment.write("a.html", page.format("Old title"))
    deployment.command("run")
    deployment.write("a.html", page.format("New title"))
    result = deployment.json("run")
    served_titles = deployment.query("SELECT DISTINCT metadata->>'title' AS title FROM serving.index_1")
    assert (result["embedded"], served_titles) == (0, [{"title": "New title"}])


def test_a_version_that_was_only_declared_once_is_in_nobodys_way(deployment: Deployment) -> None:
    """A look with the default settings does not decide which model serves later."""
    deployment.command("status")
    model = 'version = "mine-64-v1"\nprovider = "local"\nmodel = "wordllama-l2-supercat"\ndimensions = 64\n'
    deployment.configure('[source]\nurl = "inbox"\n[[models]]\n' + model)
    deployment.write("pumps.md", PUMPS)
    deployment.command("run")
    status = deployment.json("status")
    assert (status["models"]["active"], status["documents"]["complete"]) == ("mine-64-v1", 1)
    assert deployment.json("search", QUESTION)[0]["document"] == "pumps.md"
