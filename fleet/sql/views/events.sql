-- Each event once, also where traces of a process overlap.
SELECT
  event.trace_key,
  event.process_key,
  event.tid,
  event.seq,
  event.nth,
  event.time_ns,
  event.name,
  event.form,
  event.level,
  event.fields,
  event.date,
  event.host
FROM raw_events event
LEFT JOIN overlapping ON event.process_key = overlapping.process_key AND event.tid = overlapping.tid
WHERE overlapping.process_key IS NULL
UNION ALL
SELECT
  once.trace_key,
  once.process_key,
  once.tid,
  once.seq,
  once.nth,
  once.time_ns,
  once.name,
  once.form,
  once.level,
  once.fields,
  once.date,
  once.host
FROM (
  SELECT
    event.trace_key,
    event.process_key,
    event.tid,
    event.seq,
    event.nth,
    event.time_ns,
    event.name,
    event.form,
    event.level,
    event.fields,
    event.date,
    event.host,
    ranges.has_before,
    ROW_NUMBER() OVER (
      PARTITION BY event.process_key, event.tid, event.seq, event.nth
      ORDER BY event.trace_key
    ) AS copy
  FROM raw_events event
  JOIN overlapping ON event.process_key = overlapping.process_key AND event.tid = overlapping.tid
  JOIN thread_ranges ranges ON event.trace_key = ranges.trace_key AND event.tid = ranges.tid
) once
WHERE once.copy = 1
