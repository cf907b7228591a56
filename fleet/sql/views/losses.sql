-- The losses of each process, as its newest trace counts them: the recorder counts from the beginning.
SELECT
  loss.trace_key,
  loss.process_key,
  loss.tid,
  loss.recorded,
  loss.readable,
  loss.overwritten,
  loss.dropped,
  loss.summarised,
  loss.lost,
  loss.clock_breaks,
  loss.short_calls,
  loss.short_ns,
  loss.missing_threads,
  loss.date,
  loss.host
FROM raw_losses loss
JOIN (
  SELECT
    trace_key,
    ROW_NUMBER() OVER (
      PARTITION BY process_key ORDER BY COALESCE(end_ns, 0) DESC, COALESCE(dump, 0) DESC, trace_key
    ) AS nth
  FROM raw_traces
) newest ON loss.trace_key = newest.trace_key
WHERE newest.nth = 1
