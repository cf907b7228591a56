-- The statistics that count: see counted_traces.
SELECT
  stats.trace_key,
  stats.process_key,
  stats.scope,
  stats.function_key,
  stats.calls,
  stats.clipped,
  stats.counted,
  stats.untimed,
  stats.total_ns,
  stats.self_ns,
  stats.min_ns,
  stats.max_ns,
  stats.running_ns,
  stats.preempted_ns,
  stats.waiting_ns,
  stats.date,
  stats.host
FROM raw_function_stats stats
JOIN counted_traces counted ON stats.trace_key = counted.trace_key AND stats.scope = counted.scope
