// What `fdr slow` says of slow calls, kept by trace and by call: what was asked once is told again without asking.

import { Call, Finding, Slow, Source } from "./model";
import { Stage } from "./stage";

/** Calls of a trace up to which the page asks by itself. More of them take seconds. */
const MOST_CALLS = 5_000_000;

export class Causes {
  private whole = new Map<number, Promise<Slow>>();
  /** By trace: slow calls, and calls that were asked about. */
  private known: Finding[][] = [];
  private asked = new Map<string, Promise<Finding | null>>();

  constructor(
    private readonly stage: Stage,
    private readonly source: Source,
  ) {}

  /** The traces are others. */
  forget(): void {
    this.whole.clear();
    this.asked.clear();
    this.known = [];
  }

  /** Whether an answer takes so little time that nobody has to ask for it. */
  is_cheap(nth: number): boolean {
    const trace = this.stage.trace(nth);
    if (!trace.has_times || trace.progress < 1) return false;
    return !this.source.is_served || trace.threads.reduce((sum, thread) => sum + thread.calls, 0) <= MOST_CALLS;
  }

  /** The slow calls of a whole trace. */
  of_trace(nth: number): Promise<Slow> {
    const known = this.whole.get(nth);
    if (known) return known;
    const answer = this.source.slow(nth, {});
    this.whole.set(nth, answer);
    void answer.then(
      ({ calls }) => this.whole.get(nth) === answer && this.keep(nth, calls),
      () => this.whole.delete(nth),
    );
    return answer;
  }

  /** How many slow calls there are in all traces; `null`: that is not known, and takes time. */
  async count(): Promise<number | null> {
    let sum = 0;
    for (const [nth, trace] of this.stage.info.traces.entries()) {
      if (!trace.has_times) continue;
      if (!this.is_cheap(nth)) return null;
      const { calls } = await this.of_trace(nth);
      const by_function = new Map(calls.map((call) => [call.id, call.slow_calls ?? 1]));
      for (const count of by_function.values()) sum += count;
    }
    return sum;
  }

  private keep(nth: number, found: Finding[]): void {
    (this.known[nth] ??= []).push(...found);
  }

  /** What is known of a call already. */
  of_call(nth: number, call: Call): Finding | null {
    const trace = this.stage.trace(nth);
    const thread = trace.threads[call.thread]?.id;
    const since = this.stage.ns(trace, call.start - trace.begin);
    const is = (found: Finding): boolean => found.id === call.function && found.thread === thread && Math.abs((found.since_first_ns ?? NaN) - since) < 2;
    return this.known[nth]?.find(is) ?? null;
  }

  /** Why a call took that long; `null`: there is nothing to say. */
  why(nth: number, call: Call): Promise<Finding | null> {
    const known = this.of_call(nth, call);
    if (known) return Promise.resolve(known);
    const key = [nth, call.thread, call.depth, call.start].join("/");
    const asked = this.asked.get(key);
    if (asked) return asked;
    const answer = this.source.why(nth, call).then(({ calls }) => {
      if (this.asked.get(key) === answer) this.keep(nth, calls);
      return calls[0] ?? null;
    });
    this.asked.set(key, answer);
    answer.catch(() => this.asked.delete(key));
    return answer;
  }
}
