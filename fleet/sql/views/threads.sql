-- Each thread of a process once, over all of its traces.
SELECT
  process_key,
  tid,
  MAX(name) AS name,
  MIN(first_ns) AS first_ns,
  MAX(last_ns) AS last_ns,
  COUNT(*) AS traces
FROM raw_threads
GROUP BY process_key, tid
