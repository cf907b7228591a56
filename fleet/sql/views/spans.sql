-- Each call once, also where traces of a process overlap: a complete call counts before a clipped one. A call whose
-- entry a trace lacks is left out if an earlier trace has what came before.
SELECT
  span.trace_key,
  span.process_key,
  span.tid,
  span.seq,
  span.parent_seq,
  span.function_key,
  span.start_ns,
  span.dur_ns,
  span.self_ns,
  span.running_ns,
  span.waiting_ns,
  span.depth,
  span.cpu,
  span.clipped,
  span.synthetic,
  span.task_id,
  span.args,
  span.date,
  span.host
FROM raw_spans span
LEFT JOIN overlapping ON span.process_key = overlapping.process_key AND span.tid = overlapping.tid
WHERE overlapping.process_key IS NULL
UNION ALL
SELECT
  once.trace_key,
  once.process_key,
  once.tid,
  once.seq,
  once.parent_seq,
  once.function_key,
  once.start_ns,
  once.dur_ns,
  once.self_ns,
  once.running_ns,
  once.waiting_ns,
  once.depth,
  once.cpu,
  once.clipped,
  once.synthetic,
  once.task_id,
  once.args,
  once.date,
  once.host
FROM (
  SELECT
    span.trace_key,
    span.process_key,
    span.tid,
    span.seq,
    span.parent_seq,
    span.function_key,
    span.start_ns,
    span.dur_ns,
    span.self_ns,
    span.running_ns,
    span.waiting_ns,
    span.depth,
    span.cpu,
    span.clipped,
    span.synthetic,
    span.task_id,
    span.args,
    span.date,
    span.host,
    ranges.has_before,
    ROW_NUMBER() OVER (
      PARTITION BY span.process_key, span.tid, span.seq, span.function_key
      ORDER BY span.clipped, span.dur_ns DESC, span.trace_key
    ) AS copy
  FROM raw_spans span
  JOIN overlapping ON span.process_key = overlapping.process_key AND span.tid = overlapping.tid
  JOIN thread_ranges ranges ON span.trace_key = ranges.trace_key AND span.tid = ranges.tid
) once
WHERE once.copy = 1 AND NOT (once.seq < 0 AND once.has_before)
