-- Each process once. The date and host are those of its newest trace.
SELECT
  process_key,
  MAX(program) AS program,
  MAX(pid) AS pid,
  MAX(host_name) AS host_name,
  MAX(boot_id) AS boot_id,
  MAX(start_ns) AS start_ns,
  MAX(build_id) AS build_id,
  MAX(version) AS version,
  MAX(tags) AS tags,
  MAX(date) AS date,
  MAX(host) AS host,
  COUNT(*) AS traces
FROM raw_processes
GROUP BY process_key
