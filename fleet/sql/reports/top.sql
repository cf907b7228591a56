-- The functions with the most self time, over all hosts.
-- :from = '0000-01-01' | the first day
-- :until = '9999-12-31' | the last day
-- :program = '%' | a pattern of LIKE
-- :limit = 30 | rows
WITH lengths AS (
  SELECT f.program, f.name, l.bucket, MIN(l.middle_ns) AS middle_ns, SUM(l.calls) AS calls
  FROM function_lengths l
  JOIN functions f ON l.function_key = f.function_key
  WHERE l.date BETWEEN :from AND :until AND f.program LIKE :program
  GROUP BY f.program, f.name, l.bucket
),
ranked AS (
  SELECT
    program, name, middle_ns,
    SUM(calls) OVER (PARTITION BY program, name ORDER BY bucket ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS below,
    SUM(calls) OVER (PARTITION BY program, name) AS of_all
  FROM lengths
),
percentiles AS (
  SELECT
    program, name,
    MIN(CASE WHEN below * 2 >= of_all THEN middle_ns END) AS p50_ns,
    MIN(CASE WHEN below * 100 >= of_all * 99 THEN middle_ns END) AS p99_ns,
    MAX(of_all) AS measured
  FROM ranked
  GROUP BY program, name
),
sums AS (
  SELECT
    f.program, f.name,
    SUM(s.calls) AS calls,
    SUM(s.total_ns) AS total_ns,
    SUM(s.self_ns) AS self_ns,
    MAX(s.max_ns) AS max_ns,
    COUNT(DISTINCT s.process_key) AS processes,
    COUNT(DISTINCT s.host) AS hosts
  FROM function_stats s
  JOIN functions f ON s.function_key = f.function_key
  WHERE s.date BETWEEN :from AND :until AND f.program LIKE :program
  GROUP BY f.program, f.name
)
SELECT
  sums.program, sums.name, sums.calls, sums.total_ns, sums.self_ns,
  percentiles.p50_ns, percentiles.p99_ns, sums.max_ns, sums.processes, sums.hosts
FROM sums
LEFT JOIN percentiles ON sums.program = percentiles.program AND sums.name = percentiles.name
ORDER BY sums.self_ns DESC, sums.program, sums.name
LIMIT :limit
