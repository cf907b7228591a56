-- The threads of which several traces have the same records.
SELECT process_key, tid
FROM thread_ranges
WHERE has_before OR has_after
GROUP BY process_key, tid
