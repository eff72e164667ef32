"""Every command that the pages tell people to type, typed: in the situation that its page speaks of.

What does not belong here: what each command must answer in detail, which the tests of its subject say, and whether a
page names commands that exist (test_docs.py).
"""

import signal
import time
from collections.abc import Callable

import psutil

from ingest_assets_tests.alert_receivers import http_endpoint
from ingest_assets_tests.fixtures_deployment import Deployment
from ingest_assets_tests.pdf_files import build, lines, pages
from ingest_assets_tests.test_docs import documented_commands
from ingest_assets_tests.texts import paragraphs

OLD, NEW = "openai-small-512-v0", "openai-small-512-v1"
# Named in running text; what one of these needs is said by its help.
MENTIONS = {
    "alerts", "dead-letters resolve", "dead-letters retry", "extract", "messages", "receipt", "search", "show",
}  # fmt: skip
# Run until somebody ends them: test_dev.py and test_alerts_daemon.py use them.
ENDLESS = {"dev", "dev --port 3001"}
QUESTION = "search how is the pump bled?"


class Terminal:
    """Types commands, and remembers which."""

    def __init__(self, deployment: Deployment) -> None:
        self.deployment = deployment
        self.typed: set[str] = set(ENDLESS)

    def type(self, *commands: str, code: int = 0, document: str = "") -> None:
        """Run commands as a page writes them, with a document in place of DOCUMENT, and expect an exit code."""
        for command in commands:
            words = next(words for _, words in documented_commands() if " ".join(words) == command)
            self.deployment.command(*(word.replace("DOCUMENT", document) for word in words), code=code)
            self.typed.add(command)


def pdf(text: str) -> bytes:
    """Return a PDF of one line."""
    return build(pages(lines(text)))


def settings_of(*versions: str) -> str:
    """Return a settings file that declares versions of the local model."""
    sizes = {OLD: 256, NEW: 64}
    return '[source]\nurl = "inbox"\ndeletion_grace_seconds = 1\n' + "".join(
        f'[[models]]\nversion = "{version}"\nprovider = "local"\nmodel = "wordllama-l2-supercat"\n'
        f"dimensions = {sizes[version]}\n"
        for version in versions
    )


def until(condition: Callable[[], bool]) -> None:
    """Wait for something that happens soon."""
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(1)


def test_every_documented_command_does_what_its_page_says(deployment: Deployment) -> None:
    """From an empty machine to a second model and a mass deletion, as a person would work through the pages."""
    terminal = Terminal(deployment)
    deployment.configure(settings_of(OLD))
    (deployment.folder / "prod.toml").write_text(settings_of(OLD))
    (deployment.folder / "report.pdf").write_bytes(pdf("The report of this quarter has one line."))
    terminal.type("--help", "db migrate", "db url", "extract report.pdf", "status", "plan")
    for command in MENTIONS:
        deployment.command(*command.split(), "--help")
    terminal.typed |= MENTIONS

    with http_endpoint() as endpoint:
        deployment.extra_environment["INGEST_ALERTS__URLS"] = endpoint.address
        terminal.type("alerts test")
        assert len(endpoint.received) == 1
    del deployment.extra_environment["INGEST_ALERTS__URLS"]

    _dead_letters(terminal)
    _second_version(terminal)
    _deletions(terminal)
    terminal.type("alerts list", "alerts watch --once", "messages list")
    terminal.type("messages drop --all", code=1)  # none is set aside
    _psql(terminal)
    _watch(terminal)
    assert {" ".join(words) for _, words in documented_commands()} - terminal.typed == set()


def _dead_letters(terminal: Terminal) -> None:
    """Documents that cannot be indexed: looked at, accepted, tried again, mended."""
    deployment = terminal.deployment
    broken = ("manuals/pump.pdf", "scans/old.pdf", "contracts/interrupted-upload.pdf", "notes/a.pdf")
    for key in broken:
        deployment.write(key, pdf("The text of this document ends before its end.")[:300])
    for number in range(20):
        deployment.write(f"notes/{number}.md", f"# Note {number}\n\n{paragraphs(number, 2)}")
    terminal.type("run", "status", "verify", "--config prod.toml status", code=1)
    terminal.type("dead-letters list", "dead-letters list manuals/pump.pdf", "dead-letters list --reason encrypted")
    terminal.type("show DOCUMENT", document="manuals/pump.pdf")
    terminal.type("status DOCUMENT", code=1, document="manuals/pump.pdf")
    terminal.type("dead-letters retry --reason timeout", "dead-letters retry manuals/pump.pdf")
    terminal.type("dead-letters resolve scans/old.pdf", "dead-letters resolve contracts/interrupted-upload.pdf")
    terminal.type("dead-letters resolve DOCUMENT", document="notes/a.pdf")
    terminal.type("dead-letters retry DOCUMENT", document="manuals/pump.pdf")
    deployment.write("manuals/pump.pdf", pdf("The pump is bled at the upper valve."))
    terminal.type("run --approve-units 500000", "show manuals/pump.pdf", "status manuals/pump.pdf", QUESTION)


def _second_version(terminal: Terminal) -> None:
    """Another model: planned, embedded, switched to, gone back from, and the first one dropped."""
    deployment = terminal.deployment
    deployment.configure(settings_of(OLD, NEW))
    terminal.type(f"plan --model {NEW}", "models list", f"backfill --model {NEW}", f"{QUESTION} --model {NEW}")
    terminal.type(f"models activate {NEW} --check")
    deployment.command("models", "activate", NEW)
    terminal.type("rebuild-index", f"rebuild-index --model {NEW}", "models rollback")
    deployment.command("models", "activate", NEW)
    terminal.type(f"models retire {OLD}")
    deployment.configure(settings_of(NEW))


def _deletions(terminal: Terminal) -> None:
    """Too much is gone: withheld, approved, proven."""
    deployment = terminal.deployment
    for path in (*(deployment.inbox / "notes").iterdir(), deployment.inbox / "manuals" / "pump.pdf"):
        path.unlink()
    deployment.command("run", code=1)
    terminal.type("run --approve-deletions", "receipt manuals/pump.pdf", "receipt manuals/pump.pdf --json")
    terminal.type("receipt DOCUMENT", document="notes/3.md")


def _psql(terminal: Terminal) -> None:
    """A command that becomes another program."""
    [words] = {tuple(words) for _, words in documented_commands() if words[:2] == ["db", "psql"]}
    process = terminal.deployment.start(*words)
    out, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    assert "manuals/pump.pdf" in out
    terminal.typed.add(" ".join(words))


def _watch(terminal: Terminal) -> None:
    """Looks until it is told to stop."""
    process = terminal.deployment.start("alerts", "watch")
    until(lambda: psutil.Process(process.pid).num_threads() > 1 or process.poll() is not None)
    assert process.poll() is None
    # Not Ctrl-C: a shell that runs the tests in its background makes them, and what they start, deaf to it.
    process.terminate()
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGTERM
    terminal.typed.add("alerts watch")
