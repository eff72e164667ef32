"""Alerts: once per change of state, to a real endpoint and a real mail server, whatever dies in between."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import dagster as dg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest_assets.alerts import Trouble
from ingest_assets.alerts.delivery import addresses_of, shown
from ingest_assets.alerts.outbox import deliver_messages, record_troubles
from ingest_assets.alerts.transitions import Notice, State, step
from ingest_assets.alerts.wording import duration, message
from ingest_assets.database import Database
from ingest_assets.definitions import build_definitions
from ingest_assets.defs.alert_sensor import look
from ingest_assets.defs.instance import open_instance
from ingest_assets.defs.resources import close_process_platform, process_platform
from ingest_assets.defs.runs import execute
from ingest_assets.defs.sensors import due_embeddings, due_from_source
from ingest_assets_tests.alert_receivers import Endpoint, MailServer, http_endpoint, mail_server
from ingest_assets_tests.embedding_server import EmbeddingServer, error
from ingest_assets_tests.fixtures_deployment import Deployment

NOW = datetime(2026, 12, 1, 9, 0, tzinfo=UTC)
DAY = timedelta(days=1)
UI = "http://ui.example.org"


def trouble(key: str, *, count: int = 1) -> Trouble:
    """Return a trouble."""
    return Trouble(key, "ERROR", f"{key} is wrong.", "a place", count, None, "/assets/a", "ingest-assets verify")


@given(st.lists(st.sets(st.sampled_from("abcd")), max_size=30))
def test_a_trouble_is_told_once_when_it_comes_and_once_when_it_goes(history: list[set[str]]) -> None:
    """Whatever comes and goes, what people were told adds up to what is wrong."""
    states: dict[str, State] = {}
    told: set[str] = set()
    for minute, keys in enumerate(history):
        following = step(states, map(trouble, sorted(keys)), NOW + timedelta(minutes=minute), DAY)
        for notice in following.notices:
            assert (notice.trouble.key in told) == (notice.change == "recovered")
            told ^= {notice.trouble.key}
        states = dict(following.states)
        assert told == keys
        again = step(states, map(trouble, sorted(keys)), NOW + timedelta(minutes=minute), DAY)
        assert again.notices == ()


@given(st.integers(1, 200), st.integers(1, 48))
def test_what_lasts_is_told_again_after_the_time_and_not_before(hours: int, repeat: int) -> None:
    """Looks every hour: one message when it comes, then one for every full time."""
    states: dict[str, State] = {}
    told = 0
    for hour in range(hours + 1):
        following = step(states, [trouble("a")], NOW + timedelta(hours=hour), timedelta(hours=repeat))
        states, told = dict(following.states), told + len(following.notices)
    assert told == 1 + hours // repeat


@given(st.lists(st.booleans(), max_size=12))
def test_what_may_pass_by_itself_is_told_when_it_has_lasted_and_its_end_only_then(history: list[bool]) -> None:
    """Looks every half minute, patience of one minute: the third in a row tells, and only what was told recovers."""
    states: dict[str, State] = {}
    lasting, is_told = 0, False
    for number, is_wrong in enumerate(history):
        troubles = [replace(trouble("sensor/source_sensor"), since=None, patience_seconds=60.0)] if is_wrong else []
        found = step(states, troubles, NOW + timedelta(seconds=30 * number), timedelta(days=1))
        lasting = lasting + 1 if is_wrong else 0
        changes = [notice.change for notice in found.notices]
        assert changes == (["new"] if lasting == 3 else ["recovered"] if is_told and not is_wrong else [])
        is_told = lasting >= 3
        states = dict(found.states)


def test_a_change_of_numbers_is_no_news() -> None:
    """From 3 to 4 offenders nobody is woken, and the list shows 4."""
    first = step({}, [trouble("a", count=3)], NOW, DAY)
    second = step(first.states, [trouble("a", count=4)], NOW + timedelta(minutes=1), DAY)
    assert second.notices == ()
    assert second.states["a"].trouble.count == 4
    assert second.states["a"].opened_at == NOW


def test_what_a_look_cannot_judge_stays_as_it_is() -> None:
    """A run under way is no proof that nothing waits, and a daemon that is gone proves no sensor well."""
    before = step({}, [trouble("stalled/v1"), trouble("check/a")], NOW, DAY)
    after = step(before.states, [], NOW + timedelta(minutes=1), DAY, unjudged=["stalled/"])
    assert [(notice.change, notice.trouble.key) for notice in after.notices] == [("recovered", "check/a")]
    assert set(after.states) == {"stalled/v1"}


def test_one_message_says_what_where_how_many_since_when_where_to_look_and_what_to_run() -> None:
    """Everything that a person needs at three in the morning."""
    title, body = message([Notice("new", trouble("hash", count=7), NOW - timedelta(hours=3))], NOW, UI + "/")
    assert title == "ingest-assets: wrong: hash is wrong."
    assert body.splitlines() == [
        "ERROR, wrong: hash is wrong.",
        "a place, 7 in all, since 2026-12-01 06:00 UTC (3 hours).",
        "Look: http://ui.example.org/assets/a",
        "Next: ingest-assets verify",
    ]


def test_many_changes_are_one_message_with_a_number_for_what_does_not_fit() -> None:
    """Twenty troubles do not make twenty messages, nor one that nobody reads."""
    notices = [Notice("new", trouble(f"t{number}"), NOW) for number in range(18)]
    title, body = message([*notices, Notice("recovered", trouble("old"), NOW - DAY)], NOW, UI)
    assert title == "ingest-assets: 18 wrong, 1 well again"
    assert body.count("Next:") == 10
    assert body.endswith("… and 9 more: ingest-assets alerts list")


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(5, "5 seconds"), (119, "119 seconds"), (7199, "119 minutes"), (172800, "2 days"), (-1, "0 seconds")],
)
def test_a_length_of_time_is_said_in_the_largest_unit_that_fits(seconds: int, said: str) -> None:
    """Nobody reads 172,800 seconds."""
    assert duration(timedelta(seconds=seconds)) == said


def test_several_addresses_stand_in_one_setting() -> None:
    """Separated by blanks, line breaks or commas; a comma inside of an address stays."""
    urls = "json://a.example.org/x?to=b,c , mailto://u:p@h\nslack://A/B/C"
    assert addresses_of(urls) == ["json://a.example.org/x?to=b,c", "mailto://u:p@h", "slack://A/B/C"]


def test_an_address_is_shown_without_its_secrets() -> None:
    """Passwords and tokens are for the service alone."""
    assert "s3cret" not in shown("json://user:s3cret@h.example.org/x?token=abc")
    assert shown("nowhere://s3cret") == "nowhere://… (not understood)"


# Postgres and real receivers


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    """An HTTP endpoint."""
    with http_endpoint() as opened:
        yield opened


@pytest.fixture
def mail() -> Iterator[MailServer]:
    """A mail server."""
    with mail_server() as opened:
        yield opened


def titles(endpoint: Endpoint) -> list[str]:
    """Return what the endpoint was told."""
    return [item["title"] for item in endpoint.received]


def test_two_looks_at_once_make_one_message(database: Database) -> None:
    """The sensor and a watch outside see the same, and people hear it once."""
    with ThreadPoolExecutor(4) as pool:
        told = list(pool.map(lambda _: record_troubles(database, [trouble("a")], ["json://h/"], UI, 24.0), range(8)))
    assert sorted(len(notices) for notices in told) == [0] * 7 + [1]
    sent: list[str] = []
    assert deliver_messages(database, ["json://h/"], lambda *item: sent.append(item[1])) == 1
    assert sent == ["ingest-assets: wrong: a is wrong."]


def test_a_look_without_addresses_drops_nothing_that_others_will_send(database: Database) -> None:
    """A watch from cron that forgot its environment costs nobody a message, and messages stay in their order."""
    record_troubles(database, [trouble("a")], ["json://h/"], UI, 24.0)
    record_troubles(database, [], [], UI, 24.0)
    record_troubles(database, [trouble("b")], ["json://h/"], UI, 24.0)
    sent: list[str] = []

    def refuses_once(_address: str, title: str, _body: str) -> str | None:
        sent.append(title)
        return "busy" if len(sent) == 1 else None

    deliver_messages(database, ["json://h/"], refuses_once)
    assert len(sent) == 1  # the second waits for the first
    with database.connection() as connection:
        connection.execute("UPDATE ingest.alert_messages SET next_at = now()")
    deliver_messages(database, ["json://h/"], refuses_once)
    assert sent[1:] == ["ingest-assets: wrong: a is wrong.", "ingest-assets: wrong: b is wrong."]


def test_a_sender_that_dies_leaves_its_message_to_the_next(database: Database) -> None:
    """Sent twice rather than lost."""
    record_troubles(database, [trouble("a")], ["json://h/"], UI, 24.0)

    def dies(_address: str, _title: str, _body: str) -> str | None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        deliver_messages(database, ["json://h/"], dies)
    assert deliver_messages(database, ["json://h/"], lambda *_: None) == 0  # held for two minutes
    with database.connection() as connection:
        connection.execute("UPDATE ingest.alert_messages SET next_at = next_at - interval '2 minutes'")
    assert deliver_messages(database, ["json://h/"], lambda *_: None) == 1


def test_an_address_that_refuses_is_tried_later_each_time_and_holds_up_no_other(database: Database) -> None:
    """One dead pager does not silence the mail."""
    addresses = ["json://dead/", "json://alive/"]
    record_troubles(database, [trouble("a")], addresses, UI, 24.0)
    tried: list[str] = []

    def send(address: str, _title: str, _body: str) -> str | None:
        tried.append(address)
        return "no route" if "dead" in address else None

    waits = []
    for _ in range(4):
        deliver_messages(database, addresses, send)
        with database.connection() as connection:
            [item] = connection.execute(
                "UPDATE ingest.alert_messages SET next_at = now() WHERE delivered_at IS NULL"
                " RETURNING attempts, last_error, (SELECT extract(epoch FROM max(m.next_at) - now())"
                " FROM ingest.alert_messages m WHERE m.delivered_at IS NULL) AS wait"
            ).fetchall()
        waits.append(round(float(item["wait"]), -1))
    assert tried.count("json://alive/") == 1
    assert tried.count("json://dead/") == 4
    assert waits == [30, 60, 120, 240]
    assert item["last_error"] == "no route"


# The whole way


@pytest.fixture
def told(
    deployment: Deployment,
    embedding_server: EmbeddingServer,
    endpoint: Endpoint,
    mail: MailServer,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[dg.DagsterInstance]:
    """The instance of a deployment on a metered server, with two addresses."""
    deployment.configure(
        '[source]\nurl = "inbox"\nlisting_interval_seconds = 0\n'
        '[alerts]\nui_url = "http://ui.example.org"\n[[models]]\nversion = "v1"\n'
        f'provider = "openai"\nmodel = "m"\ndimensions = 8\nbase_url = "{embedding_server.url}"\n'
    )
    deployment.extra_environment["INGEST_ALERTS__URLS"] = f"{endpoint.address} {mail.address}"
    for name, value in {**deployment.environment, "OPENAI_API_KEY": "a-key"}.items():
        if name.startswith(("INGEST_", "OPENAI_")):
            monkeypatch.setenv(name, value)
    close_process_platform()
    with open_instance(process_platform().settings) as opened:
        yield opened
    close_process_platform()


def work(instance: dg.DagsterInstance) -> None:
    """Do what the sensors ask for."""
    for find in (due_from_source, due_embeddings):
        for due in find(instance, process_platform()):
            execute(build_definitions(), instance, process_platform().database, due)


def look_again_after_a_restart(instance: dg.DagsterInstance) -> None:
    """Look once, from a process that knows nothing but the database."""
    close_process_platform()
    look(instance, process_platform())


def test_a_dead_letter_a_failed_run_and_a_broken_hash_are_told_once_each_and_so_is_their_recovery(
    deployment: Deployment,
    told: dg.DagsterInstance,
    embedding_server: EmbeddingServer,
    endpoint: Endpoint,
    mail: MailServer,
) -> None:
    """By HTTP and by mail, each once, across restarts."""
    deployment.write("good.md", "The good pump was inspected on the third day.")
    work(told)
    look_again_after_a_restart(told)
    assert endpoint.received == []

    deployment.write("bad.md", b"\x89PNG\r\n\x1a\n" + bytes(100))
    work(told)
    look_again_after_a_restart(told)
    look_again_after_a_restart(told)
    assert titles(endpoint) == ["ingest-assets: wrong: The check unresolved_dead_letters fails: Open dead letters: 1."]
    assert "Next: ingest-assets dead-letters list" in endpoint.received[0]["message"]
    assert "http://ui.example.org/assets/dead_letters?view=checks" in endpoint.received[0]["message"]

    embedding_server.always = error(401, "Incorrect API key", code="invalid_api_key")
    deployment.write("bad.md", "The bad pump was inspected on the fourth day.")
    work(told)
    look_again_after_a_restart(told)
    look_again_after_a_restart(told)
    assert titles(endpoint)[1:] == ["ingest-assets: 1 wrong, 1 well again"]
    assert "Runs of chunk_vectors at v1 fail: unauthenticated" in endpoint.received[1]["message"]
    assert "Well again: The check unresolved_dead_letters fails" in endpoint.received[1]["message"]

    embedding_server.always = None
    work(told)
    with process_platform().database.connection() as connection:
        connection.execute("UPDATE ingest.chunks SET text = text || '!'")
    deployment.write("third.md", "The third pump was inspected on the fifth day.")
    work(told)
    deployment.json("verify", code=1)
    job = build_definitions().resolve_job_def("check_everything")
    assert job.execute_in_process(instance=told).success
    look_again_after_a_restart(told)
    look_again_after_a_restart(told)
    assert titles(endpoint)[2:] == ["ingest-assets: 1 wrong, 1 well again"]
    assert "The check hash_freshness fails" in endpoint.received[2]["message"]
    assert "Well again: Runs of chunk_vectors at v1 fail" in endpoint.received[2]["message"]

    with process_platform().database.connection() as connection:
        connection.execute("UPDATE ingest.chunks SET text = rtrim(text, '!') WHERE text LIKE '%!'")
    assert job.execute_in_process(instance=told).success
    look_again_after_a_restart(told)
    [last] = titles(endpoint)[3:]
    assert last.startswith("ingest-assets: well again: The check hash_freshness fails: Documents served or embedded")
    assert [subject for subject, _ in mail.received] == titles(endpoint)
    assert deployment.json("alerts", "list")["wrong"] == []


def test_withheld_deletions_and_work_that_waits_without_failing_are_told(
    deployment: Deployment, told: dg.DagsterInstance, endpoint: Endpoint
) -> None:
    """What fails nothing and moves nothing is what people find out last."""
    deployment.write("good.md", "The good pump was inspected on the third day.")
    work(told)
    with process_platform().database.connection() as connection:
        connection.execute("UPDATE ingest.documents SET deletion = 'withheld', missing_since = now()")
    look_again_after_a_restart(told)
    assert "Withheld deletions, for the source shrank suspiciously: 1." in endpoint.received[0]["message"]
    assert "ingest-assets run --approve-deletions" in endpoint.received[0]["message"]
    with process_platform().database.connection() as connection:
        connection.execute("UPDATE ingest.documents SET deletion = NULL, missing_since = NULL")
        connection.execute("DELETE FROM ingest.embedding_coverage")
        connection.execute("UPDATE ingest.documents SET updated_at = now() - interval '31 minutes'")
        connection.execute("UPDATE ingest.embedding_models SET declared_at = now() - interval '1 day'")
    look_again_after_a_restart(told)
    assert "Documents that wait to be embedded at v1 while no run works on them: 1." in endpoint.received[1]["message"]
    assert "ingest-assets backfill --model v1" in endpoint.received[1]["message"]


def test_a_refusing_endpoint_is_visible_and_gets_its_message_when_it_is_back(
    deployment: Deployment, told: dg.DagsterInstance, endpoint: Endpoint, mail: MailServer
) -> None:
    """Nothing is lost, and an operator sees that somebody was not told."""
    endpoint.status = 503
    deployment.write("bad.md", b"\x89PNG\r\n\x1a\n" + bytes(100))
    work(told)
    look_again_after_a_restart(told)
    assert len(mail.received) == 1
    found = deployment.json("alerts", "list", code=1)
    [waiting] = found["undelivered"]
    assert (waiting["waiting"], waiting["attempts"]) == (1, 1)
    assert "503" in waiting["last_error"]
    assert "s3cret" not in str(found)
    endpoint.status = 200
    with process_platform().database.connection() as connection:
        connection.execute("UPDATE ingest.alert_messages SET next_at = now()")
    look_again_after_a_restart(told)
    assert len(endpoint.received) == 1
    assert len(mail.received) == 1


def test_trying_the_addresses_says_which_one_works(
    deployment: Deployment, endpoint: Endpoint, mail: MailServer
) -> None:
    """Before the first night, not after it."""
    refused = deployment.json("alerts", "test", code=2)
    assert "INGEST_ALERTS__URLS" in refused["error"]
    deployment.extra_environment["INGEST_ALERTS__URLS"] = f"{endpoint.address},{mail.address}"
    tried = deployment.json("alerts", "test")
    assert [item["error"] for item in tried] == [None, None]
    assert endpoint.received[0]["title"] == mail.received[0][0] == "ingest-assets: a test"
    endpoint.status = 500
    deployment.extra_environment["INGEST_ALERTS__URLS"] += " nowhere://x"
    tried = deployment.json("alerts", "test", code=1)
    assert [item["error"] is None for item in tried] == [False, True, False]
    assert "s3cret" not in str(tried)
