-- Each trace.
SELECT
  trace_key,
  process_key,
  dump,
  reason,
  format,
  start_ns,
  end_ns,
  has_run,
  damage,
  date,
  host
FROM raw_traces
