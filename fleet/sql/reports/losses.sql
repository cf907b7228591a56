-- What the recorders lost, for each program on each host.
-- :from = '0000-01-01' | the first day
-- :until = '9999-12-31' | the last day
-- :program = '%' | a pattern of LIKE
-- :limit = 100 | rows
WITH sums AS (
  SELECT
    l.host, p.program,
    COUNT(DISTINCT l.process_key) AS processes,
    SUM(COALESCE(l.recorded, l.readable)) AS recorded,
    SUM(l.readable) AS readable,
    SUM(COALESCE(l.overwritten, 0)) AS overwritten,
    SUM(COALESCE(l.dropped, 0)) AS dropped,
    SUM(COALESCE(l.summarised, 0)) AS summarised,
    SUM(l.lost) AS lost,
    SUM(l.clock_breaks) AS clock_breaks
  FROM losses l
  JOIN processes p ON l.process_key = p.process_key
  WHERE l.date BETWEEN :from AND :until AND p.program LIKE :program
  GROUP BY l.host, p.program
)
SELECT
  host, program, processes, recorded, readable, overwritten, dropped, summarised, lost, clock_breaks,
  CASE WHEN recorded > 0 THEN CAST(dropped + lost AS DOUBLE) / CAST(recorded AS DOUBLE) ELSE 0.0E0 END AS share_lost
FROM sums
ORDER BY share_lost DESC, recorded DESC, host, program
LIMIT :limit
