-- The statistics that count: see counted_traces.
SELECT
  stats.trace_key,
  stats.process_key,
  stats.scope,
  stats.function_key,
  stats.bucket,
  stats.middle_ns,
  stats.calls,
  stats.date,
  stats.host
FROM raw_function_lengths stats
JOIN counted_traces counted ON stats.trace_key = counted.trace_key AND stats.scope = counted.scope
