-- Which statistics count. Of figures of the whole run, the newest of a process. Else those of the records of each trace,
-- unless a later trace of the process has some of the same records.
SELECT newest.trace_key, 'run' AS scope
FROM (
  SELECT
    trace_key,
    ROW_NUMBER() OVER (
      PARTITION BY process_key ORDER BY COALESCE(end_ns, 0) DESC, COALESCE(dump, 0) DESC, trace_key
    ) AS nth
  FROM raw_traces
  WHERE has_run
) newest
WHERE newest.nth = 1
UNION ALL
SELECT trace.trace_key, 'records' AS scope
FROM raw_traces trace
LEFT JOIN (SELECT DISTINCT process_key FROM raw_traces WHERE has_run) run
  ON trace.process_key = run.process_key
LEFT JOIN (SELECT DISTINCT trace_key FROM thread_ranges WHERE has_after) later
  ON trace.trace_key = later.trace_key
WHERE run.process_key IS NULL AND later.trace_key IS NULL
