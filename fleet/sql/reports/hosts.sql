-- Each program on each host: its self time for a call, and how that compares with all hosts.
-- :from = '0000-01-01' | the first day
-- :until = '9999-12-31' | the last day
-- :program = '%' | a pattern of LIKE
-- :limit = 100 | rows
WITH sums AS (
  SELECT
    s.host, f.program,
    COUNT(DISTINCT s.process_key) AS processes,
    SUM(s.calls) AS calls,
    SUM(s.self_ns) AS self_ns
  FROM function_stats s
  JOIN functions f ON s.function_key = f.function_key
  WHERE s.date BETWEEN :from AND :until AND f.program LIKE :program
  GROUP BY s.host, f.program
),
everywhere AS (
  SELECT program, SUM(calls) AS calls, SUM(self_ns) AS self_ns
  FROM sums
  GROUP BY program
),
compared AS (
  SELECT
    sums.host, sums.program, sums.processes, sums.calls, sums.self_ns,
    CAST(sums.self_ns AS DOUBLE) / CAST(sums.calls AS DOUBLE) AS ns_for_a_call,
    CAST(everywhere.self_ns AS DOUBLE) / CAST(everywhere.calls AS DOUBLE) AS ns_on_all_hosts
  FROM sums
  JOIN everywhere ON sums.program = everywhere.program
  WHERE sums.calls > 0 AND everywhere.self_ns > 0
)
SELECT
  host, program, processes, calls, self_ns, ns_for_a_call, ns_on_all_hosts,
  ns_for_a_call / ns_on_all_hosts AS times_all_hosts
FROM compared
ORDER BY times_all_hosts DESC, host, program
LIMIT :limit
