// Asks for what is seen and not there yet, one answer at a time. An answer that nobody would look at any more is given up.

import { Source, Trace } from "./model";
import { Part, Stage } from "./stage";

export class Asking {
  private busy = false;
  private again = false;
  /** The stretch that is being asked for, in ns on the axis. */
  private flight: { from: number; to: number; control: AbortController } | null = null;

  constructor(
    private readonly stage: Stage,
    private readonly source: Source,
    private readonly changed: () => void,
    private readonly failed: (error: unknown) => void,
  ) {}

  /** Asks for what is seen and not there yet. */
  async want(): Promise<void> {
    if (this.busy) {
      this.again = true;
      if (this.is_useless()) this.flight?.control.abort();
      return;
    }
    this.busy = true;
    try {
      do {
        this.again = false;
        await this.fetch();
      } while (this.again);
    } catch (error) {
      this.failed(error);
    } finally {
      this.busy = false;
    }
  }

  /** Whether the answer that is under way shows nothing of the view, or far too little of it. */
  private is_useless(): boolean {
    if (!this.flight) return false;
    const { view } = this.stage;
    const { from, to } = this.flight;
    const ratio = (to - from) / (2 * (view.to - view.from));
    return to < view.from || from > view.to || ratio > 8 || ratio < 1 / 8;
  }

  private async fetch(): Promise<void> {
    const { stage } = this;
    const { view } = stage;
    const pixel_ns = (view.to - view.from) / Math.max(stage.width - stage.gutter, 1);
    const margin = (view.to - view.from) / 2;
    const control = new AbortController();
    this.flight = { from: view.from - margin, to: view.to + margin, control };
    try {
      for (const [nth, trace] of stage.info.traces.entries()) {
        await this.of_trace(nth, trace, pixel_ns, control.signal);
      }
    } catch (error) {
      if (!control.signal.aborted) throw error;
    } finally {
      this.flight = null;
    }
  }

  private async of_trace(nth: number, trace: Trace, pixel_ns: number, signal: AbortSignal): Promise<void> {
    const { stage } = this;
    const { view } = stage;
    const pixel = Math.max((pixel_ns * trace.frequency) / 1e9, 0);
    const [from, to] = [stage.tick(nth, view.from), stage.tick(nth, view.to)];
    const margin = (to - from) / 2;
    const part: Part = { from: from - margin, to: to + margin, pixel, progress: trace.progress, found: stage.looked_for(nth) };
    const is_there = (known: Part | undefined): boolean => known !== undefined && covers(known, from, to, pixel, trace);
    const wanted = stage.visible().filter((lane) => lane.trace === nth && !(lane.picture && lane.found === part.found && is_there(lane)));
    if (wanted.length > 0) {
      const found = await this.source.lanes(nth, wanted.map((lane) => lane.thread), part.from, part.to, pixel, signal, part.found);
      const by_thread = new Map(found.map((picture) => [picture.thread, picture]));
      for (const lane of wanted) {
        const picture = by_thread.get(lane.thread);
        if (picture) Object.assign(lane, { picture, ...part });
      }
      this.changed();
    }
    const lanes = stage.seen(stage.tasks).filter((lane) => lane.trace === nth && !is_there(lane.part));
    if (lanes.length > 0) {
      const found = await this.source.tasks(nth, lanes.map((lane) => lane.lane), part.from, part.to, pixel, signal);
      const by_lane = new Map(found.map((picture) => [picture.thread, picture]));
      // The lanes may have been made anew since.
      for (const lane of stage.tasks.filter((lane) => lane.trace === nth)) {
        const picture = by_lane.get(lane.lane);
        if (picture) [lane.picture, lane.part] = [picture, part];
      }
      this.changed();
    }
    const counters = stage.seen(stage.counters).filter((lane) => lane.trace === nth);
    if (counters.some((lane) => !is_there(lane.part))) {
      const found = new Map((await this.source.curves(nth, part.from, part.to, pixel, signal)).map((curve) => [curve.id, curve]));
      for (const lane of stage.counters.filter((lane) => lane.trace === nth)) {
        [lane.curve, lane.part] = [found.get(lane.counter.id) ?? lane.curve, part];
      }
      this.changed();
    }
  }

  /** Asks for the overview. */
  async survey(): Promise<void> {
    const { stage } = this;
    for (const [nth, trace] of stage.info.traces.entries()) {
      const threads = trace.threads.map((_, thread) => thread).slice(0, 64);
      const pixel = (trace.end - trace.begin) / 1000;
      const found = await this.source.lanes(nth, threads, trace.begin, trace.end, pixel, undefined, stage.looked_for(nth));
      for (const picture of found) stage.overview.set(`${nth}/${picture.thread}`, picture);
    }
    stage.surveys += 1;
    this.changed();
  }
}

/** Whether what is there is what is seen, and as sharp. */
function covers(part: Part, from: number, to: number, pixel: number, trace: Trace): boolean {
  // What was not read yet when the picture was made may be there now.
  if (trace.progress > part.progress) return false;
  const is_within = part.from <= from && part.to >= to;
  return is_within && part.pixel <= pixel * 1.3 && part.pixel >= pixel / 4;
}
