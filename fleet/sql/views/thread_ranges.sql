-- The records that each trace has of each thread, and whether other traces of the process have some of them too:
-- has_before: one that begins earlier; has_after: one that ends later.
SELECT
  trace_key,
  process_key,
  tid,
  first_seq,
  next_seq,
  COALESCE(
    MAX(next_seq) OVER (
      PARTITION BY process_key, tid ORDER BY first_seq, next_seq DESC, trace_key
      ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    ),
    first_seq
  ) > first_seq AS has_before,
  COALESCE(
    MIN(first_seq) OVER (
      PARTITION BY process_key, tid ORDER BY next_seq, first_seq DESC, trace_key
      ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING
    ),
    next_seq
  ) < next_seq AS has_after
FROM raw_threads
