-- Each boot of each host once.
SELECT host, host_name, boot_id, MAX(clock) AS clock, MAX(clock_hz) AS clock_hz, MIN(date) AS first_date, MAX(date) AS last_date
FROM raw_hosts
GROUP BY host, host_name, boot_id
