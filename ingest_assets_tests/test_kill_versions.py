"""A process that dies while it publishes, activates, rebuilds or retires: the next command finishes or undoes it.

Not here: death in the stages before (test_kill.py) and while a provider is paid (test_kill_embedding.py).
"""

import random
import time

import pytest

from ingest_assets_tests.fixtures_deployment import Deployment
from ingest_assets_tests.forked_commands import Commands, forked_commands
from ingest_assets_tests.index_readers import reading
from ingest_assets_tests.texts import paragraphs

DOCUMENTS = 6
MODEL = '[[models]]\nversion = "{}"\nprovider = "local"\nmodel = "wordllama-l2-supercat"\ndimensions = {}\n'
LEFT_OF = """
SELECT (SELECT status FROM ingest.embedding_models WHERE number = %(number)s) AS status,
    to_regclass(format('serving.index_%%s', %(number)s)) AS served,
    to_regclass(format('ingest.chunk_vectors_%%s', %(number)s)) AS vectors,
    (SELECT count(*) FROM serving.publications p JOIN ingest.embedding_models m ON m.version = p.embedding_model_version
     WHERE m.number = %(number)s) AS publications
"""


def edit(deployment: Deployment, edition: int) -> None:
    """Give every document another text."""
    for number in range(DOCUMENTS):
        deployment.write(f"{number}.md", f"# Edition {edition}\n\n" + paragraphs(1000 * edition + number, 4))


def active(deployment: Deployment) -> list[str]:
    """Return the versions that serve readers."""
    return [item["version"] for item in deployment.query("SELECT version FROM serving.active_model")]


def number_of(deployment: Deployment, version: str) -> int:
    """Return the number that names a version's tables."""
    statement = "SELECT number FROM ingest.embedding_models WHERE version = %(version)s"
    return int(deployment.query(statement, {"version": version})[0]["number"])


def done(commands: Commands, *arguments: str) -> float:
    """Let a command come to its good end; returns its seconds."""
    began = time.monotonic()
    assert commands.start(*arguments).wait() == 0, arguments
    return time.monotonic() - began


def killed(commands: Commands, seconds: float, *arguments: str) -> bool:
    """Kill a command after so long; False where it had ended."""
    command = commands.start(*arguments)
    time.sleep(seconds)
    return command.kill()


def killed_while_publishing(commands: Commands, deployment: Deployment, seconds: float) -> bool:
    """Kill a run so long after it began to embed the first version."""
    [before] = deployment.query("SELECT count(*) AS n FROM ingest.embedding_runs")
    command = commands.start("run")
    while deployment.query("SELECT count(*) AS n FROM ingest.embedding_runs") == [before]:
        time.sleep(0.005)
    time.sleep(seconds)
    return command.kill()


@pytest.mark.parametrize(
    ("seed", "deaths"), [(0, 1), *(pytest.param(seed, 8, marks=pytest.mark.soak) for seed in (1, 2))]
)
def test_kill_9_while_a_version_changes_leaves_readers_whole_and_the_next_command_finishes(
    deployment: Deployment, seed: int, deaths: int
) -> None:
    """A death of each kind, dozens with `make soak`; a reader looks all the time."""
    chance = random.Random(seed)
    labels = [("v256", 256), ("v64", 64), *((f"x{number}", 64) for number in range(deaths + 1))]
    deployment.configure('[source]\nurl = "inbox"\n' + "".join(MODEL.format(*label) for label in labels))
    edit(deployment, 0)
    deployment.json("run")
    with forked_commands(deployment) as commands, reading(deployment.database_url, DOCUMENTS) as answers:
        span = done(commands, "models", "activate", "v64")
        for _ in range(deaths):
            [before] = active(deployment)
            wanted = "v256" if before == "v64" else "v64"
            killed(commands, chance.uniform(0, span), "models", "activate", wanted)
            assert active(deployment) in ([before], [wanted])
            done(commands, "models", "activate", wanted)
            assert active(deployment) == [wanted]
        span = done(commands, "rebuild-index")
        for _ in range(deaths):
            killed(commands, chance.uniform(0, span), "rebuild-index")
            done(commands, "rebuild-index")
        assert deployment.query("SELECT FROM pg_class WHERE relname LIKE '%%_rebuilt'") == []
        span = done(commands, "models", "retire", "x0")
        for label, _ in labels[3:]:
            number = number_of(deployment, label)
            killed(commands, chance.uniform(0, span), "models", "retire", label)
            done(commands, "models", "retire", label)
            [left] = deployment.query(LEFT_OF, {"number": number})
            assert left == {"status": "retired", "served": None, "vectors": None, "publications": 0}
        for edition in range(1, deaths + 1):
            edit(deployment, edition)
            killed_while_publishing(commands, deployment, chance.uniform(0, 0.6))
            done(commands, "run")
    assert answers.wrong == []
    assert answers.by_version.keys() == {"v256", "v64"}
    text = deployment.query("SELECT string_agg(text, '') AS text FROM serving.index_1")[0]["text"]
    assert text.count(f"# Edition {deaths}") == DOCUMENTS == text.count("# Edition")
    assert all(check["passed"] for check in deployment.json("verify"))
