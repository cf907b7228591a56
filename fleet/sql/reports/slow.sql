-- The slowest complete calls, over all hosts.
-- :from = '0000-01-01' | the first day
-- :until = '9999-12-31' | the last day
-- :program = '%' | a pattern of LIKE
-- :function = '%' | a pattern of LIKE
-- :limit = 1000 | rows
WITH slowest AS (
  SELECT
    f.program, f.name, s.date, s.host, s.process_key, s.tid, s.seq,
    s.start_ns, s.dur_ns, s.self_ns, s.running_ns, s.waiting_ns, s.args
  FROM spans s
  JOIN functions f ON s.function_key = f.function_key
  WHERE s.date BETWEEN :from AND :until
    AND NOT s.clipped
    AND f.program LIKE :program
    AND f.name LIKE :function
  ORDER BY s.dur_ns DESC, s.process_key, s.tid, s.seq
  LIMIT :limit
)
SELECT
  slowest.dur_ns, slowest.program, slowest.name, slowest.date, slowest.host, p.pid, slowest.tid,
  slowest.start_ns, slowest.self_ns, slowest.running_ns, slowest.waiting_ns, slowest.args, slowest.process_key, slowest.seq
FROM slowest
JOIN processes p ON slowest.process_key = p.process_key
ORDER BY slowest.dur_ns DESC, slowest.process_key, slowest.tid, slowest.seq
