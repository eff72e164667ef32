-- Tables of Dagster's own database: what may go without anybody missing it, and what they hold.
-- A partition's state is its newest materialized and planned event, and the run of the latter: these stay for ever.
-- Times are in UTC without a zone, as Dagster writes them.

-- name: ended_log_events
-- Events of runs that ended before a time, but those that people and checks ask for later.
SELECT e.id FROM event_logs e JOIN runs r ON r.run_id = e.run_id
WHERE r.status IN ('SUCCESS', 'FAILURE', 'CANCELED') AND r.update_timestamp < %(before)s
  AND (e.dagster_event_type IS NULL OR e.dagster_event_type NOT IN (
      'ASSET_MATERIALIZATION', 'ASSET_MATERIALIZATION_PLANNED', 'ASSET_OBSERVATION', 'ASSET_CHECK_EVALUATION',
      'STEP_FAILURE', 'PIPELINE_START', 'PIPELINE_SUCCESS', 'PIPELINE_FAILURE', 'PIPELINE_CANCELED'))

-- name: superseded_asset_events
-- Events of partitions before a time that a newer one of the same kind replaced.
SELECT id FROM (
    SELECT id, timestamp, row_number() OVER (
        PARTITION BY asset_key, partition, dagster_event_type ORDER BY id DESC) AS place
    FROM event_logs
    WHERE dagster_event_type IN ('ASSET_MATERIALIZATION', 'ASSET_MATERIALIZATION_PLANNED', 'ASSET_OBSERVATION')
) ranked WHERE place > 1 AND timestamp < %(before)s

-- name: superseded_check_events
-- Results of checks before a time, but the newest of each check.
SELECT e.id FROM event_logs e
WHERE e.dagster_event_type = 'ASSET_CHECK_EVALUATION' AND e.timestamp < %(before)s
  AND NOT EXISTS (
      SELECT FROM asset_check_executions c
      WHERE c.evaluation_event_storage_id = e.id
        AND c.id = (SELECT max(n.id) FROM asset_check_executions n
                    WHERE n.asset_key = c.asset_key AND n.check_name = c.check_name))

-- name: delete_events
-- Delete events with their tags.
WITH tags AS (DELETE FROM asset_event_tags WHERE event_id = ANY (%(event_ids)s))
DELETE FROM event_logs WHERE id = ANY (%(event_ids)s)

-- name: delete_check_executions
-- Results of checks before a time, but the newest of each check.
DELETE FROM asset_check_executions c
WHERE c.create_timestamp < %(before)s
  AND c.id < (SELECT max(n.id) FROM asset_check_executions n
              WHERE n.asset_key = c.asset_key AND n.check_name = c.check_name)

-- name: event_log_size
-- One row: rows and bytes of the event log with its indexes and tags, and bytes of the ticks of sensors and schedules.
SELECT (SELECT count(*) FROM event_logs) AS events,
    pg_total_relation_size('event_logs') + pg_total_relation_size('asset_event_tags') AS event_bytes,
    (SELECT count(*) FROM job_ticks) AS ticks, pg_total_relation_size('job_ticks') AS tick_bytes

-- name: partition_events
-- One row: the events that hold the state of partitions, the bytes of their text, and the documents they are of.
SELECT count(*) AS events, coalesce(sum(length(event)), 0) AS bytes,
    count(DISTINCT regexp_replace(partition, '\|[^|]*$', '')) AS documents
FROM event_logs WHERE partition IS NOT NULL
  AND dagster_event_type IN ('ASSET_MATERIALIZATION', 'ASSET_MATERIALIZATION_PLANNED')

-- name: events_of_partitions
-- Every event of some partitions of some assets.
SELECT id FROM event_logs
WHERE asset_key = ANY (%(assets)s) AND partition = ANY (%(partitions)s)
