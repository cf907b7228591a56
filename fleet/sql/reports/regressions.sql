-- The functions whose 99th percentile grew most between two stretches of days.
-- :before_from = '0000-01-01' | the first day of the time before
-- :before_until = '0000-01-01' | its last day
-- :from = '0000-01-01' | the first day of the time after
-- :until = '9999-12-31' | its last day
-- :program = '%' | a pattern of LIKE
-- :calls = 100 | the fewest measured calls in each of the two
-- :limit = 30 | rows
WITH lengths AS (
  SELECT f.program, f.name, CASE WHEN l.date BETWEEN :before_from AND :before_until THEN 1 ELSE 2 END AS part, l.bucket, MIN(l.middle_ns) AS middle_ns, SUM(l.calls) AS calls
  FROM function_lengths l
  JOIN functions f ON l.function_key = f.function_key
  WHERE (l.date BETWEEN :before_from AND :before_until OR l.date BETWEEN :from AND :until) AND f.program LIKE :program
  GROUP BY f.program, f.name, CASE WHEN l.date BETWEEN :before_from AND :before_until THEN 1 ELSE 2 END, l.bucket
),
ranked AS (
  SELECT
    program, name, part, middle_ns,
    SUM(calls) OVER (PARTITION BY program, name, part ORDER BY bucket ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS below,
    SUM(calls) OVER (PARTITION BY program, name, part) AS of_all
  FROM lengths
),
percentiles AS (
  SELECT
    program, name, part,
    MIN(CASE WHEN below * 2 >= of_all THEN middle_ns END) AS p50_ns,
    MIN(CASE WHEN below * 100 >= of_all * 99 THEN middle_ns END) AS p99_ns,
    MAX(of_all) AS measured
  FROM ranked
  GROUP BY program, name, part
)
SELECT
  later.program, later.name,
  CAST(later.p99_ns AS DOUBLE) / CAST(earlier.p99_ns AS DOUBLE) AS times,
  earlier.p99_ns AS before_p99_ns, later.p99_ns AS after_p99_ns,
  earlier.p50_ns AS before_p50_ns, later.p50_ns AS after_p50_ns,
  earlier.measured AS before_calls, later.measured AS after_calls
FROM percentiles later
JOIN percentiles earlier ON later.program = earlier.program AND later.name = earlier.name
WHERE later.part = 2 AND earlier.part = 1 AND earlier.p99_ns > 0
  AND later.measured >= :calls AND earlier.measured >= :calls
ORDER BY times DESC, later.program, later.name
LIMIT :limit
