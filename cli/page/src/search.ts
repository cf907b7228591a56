// The search of functions: which ones it found, and the way through their calls.

import { Causes } from "./causes";
import { matcher, things } from "./format";
import { Call, CALLS, SHORT, Source, Survey } from "./model";
import { Stage } from "./stage";
import { Selected } from "./view";

/** What the search may do. */
interface Page {
  say(text: string): void;
  /** Selects the event of a thread at a tick. */
  show_event(trace: number, thread: number, time: number): void;
  /** The search is over. */
  told(): void;
  select(selected: Selected): void;
  changed(): void;
  /** Makes the overview anew. */
  survey(): void;
}

export class Search {
  /** Steps that are asked for: presses of a key while an answer is under way are not lost. */
  private steps = 0;
  private is_busy = false;
  private serial = 0;
  private timer = 0;

  constructor(
    private readonly stage: Stage,
    private readonly source: Source,
    private readonly causes: Causes,
    private readonly page: Page,
  ) {}

  /** Finds functions by text or glob. */
  functions(text: string): void {
    const { stage } = this;
    stage.view.search = text;
    [stage.found, stage.found_events] = [[], []];
    stage.surveys += 1;
    this.serial += 1;
    if (text) {
      const matches = matcher(text);
      stage.info.traces.forEach((trace, nth) => {
        const ids = trace.functions.filter((of) => of.is_called && matches(of.name)).map((of) => of.id);
        stage.found[nth] = new Set(ids);
        stage.found_events[nth] = new Set(trace.functions.filter((of) => of.is_event && matches(of.name)).map((of) => of.id));
      });
      this.page.say(this.words());
    } else this.page.told();
    this.page.changed();
    clearTimeout(this.timer);
    // The overview shows them, too.
    this.timer = window.setTimeout(() => this.page.survey(), 300);
  }

  get is_walking(): boolean {
    return this.is_busy;
  }

  private words(): string {
    const text = this.stage.view.search;
    const sum = (all: Set<number>[]): number => all.reduce((sum, found) => sum + found.size, 0);
    const [functions, events] = [sum(this.stage.found), sum(this.stage.found_events)];
    const count = functions + events;
    const also = events > 0 ? ` and ${things(events, "event")}` : "";
    if (functions === 0 && events > 0) return `${things(events, "event")} found: N goes through them`;
    return `${things(functions, "function")}${also} found${count > 0 ? ": N goes through their calls" : /[*?]/.test(text) ? ": a glob is of the whole name, as *::step_*" : ""}`;
  }

  /** Goes to the first call that is shown, or else to the next one. */
  first(): void {
    const { view } = this.stage;
    if (!view.search) return;
    const seen = this.seen();
    if (seen) {
      this.page.select(seen);
      return;
    }
    view.selected = null;
    void this.next(1);
  }

  /** The first call found that is shown, even in part. */
  private seen(): Selected | null {
    const { stage } = this;
    let best: Selected | null = null;
    let best_at = Infinity;
    for (const lane of stage.visible()) {
      const found = stage.found[lane.trace];
      const [from, to] = [stage.tick(lane.trace, stage.view.from), stage.tick(lane.trace, stage.view.to)];
      for (const [depth, row] of (lane.picture?.rows.slice(0, lane.rows) ?? []).entries()) {
        for (let nth = 0; found && nth < row.length; nth++) {
          const [start, end, of, count] = [row.start[nth] ?? 0, row.end[nth] ?? 0, row.function[nth] ?? 0, row.count[nth] ?? 0];
          if (start > to) break;
          if (end < from || !found.has(of) || of === SHORT || (count & CALLS) !== 1) continue;
          const at = Math.max(stage.at(lane.trace, start), stage.view.from);
          if (at >= best_at) break;
          best_at = at;
          best = { trace: lane.trace, thread: lane.thread, depth, start, end, function: of, flags: (count & ~CALLS) >>> 0 };
          break;
        }
      }
    }
    return best;
  }

  /** Goes to the next call that was found, or the previous one. */
  async next(direction: 1 | -1): Promise<void> {
    this.steps += direction;
    if (this.is_busy) return;
    this.is_busy = true;
    try {
      await this.walk();
    } finally {
      this.is_busy = false;
      this.steps = 0;
    }
  }

  private async walk(): Promise<void> {
    const { stage, page } = this;
    const { view } = stage;
    const trace = view.selected && (stage.found[view.selected.trace]?.size ?? 0) > 0 ? view.selected.trace : stage.found.findIndex((found) => found.size > 0);
    const found = stage.found[trace];
    const of_events = stage.found_events.findIndex((found) => found.size > 0);
    if (!found && of_events >= 0) return this.walk_events(of_events);
    if (!found || found.size === 0) return page.say(view.search ? "no function is found" : "search first: /");
    let at: Call | null = view.selected?.trace === trace ? view.selected : null;
    let words = "searching…";
    page.say(words);
    const { serial } = this;
    let shown = at;
    while (this.steps !== 0) {
      const direction = this.steps > 0 ? 1 : -1;
      this.steps -= direction;
      const from: Call = at ?? { thread: 0, depth: 0, start: stage.tick(trace, view.from), end: 0, function: 0, flags: 0 };
      const survey = await this.source.survey(trace, [...found], from);
      if (serial !== this.serial) return;
      const call: Call | null = direction > 0 ? survey.next : survey.previous;
      if (!call) {
        words = `no ${direction > 0 ? "later" : "earlier"} one of ${things(survey.calls, "call")}`;
        this.steps = 0;
        break;
      }
      const is_among = at !== null && found.has(at.function);
      const number = direction > 0 ? survey.before + (is_among ? 2 : 1) : survey.before;
      words = `call ${number} of ${survey.calls} found`;
      at = call;
    }
    if (at && at !== shown) {
      this.is_own = true;
      page.select({ trace, ...at });
      this.is_own = false;
    }
    page.say(words);
  }

  /** Goes to the next event that was found, or the previous one. */
  private async walk_events(trace: number): Promise<void> {
    const { stage, page } = this;
    const { event } = stage.view;
    const names = [...(stage.found_events[trace] ?? [])];
    let at = event?.trace === trace ? event : { thread: 0, time: stage.tick(trace, stage.view.from) - 1 };
    const { serial } = this;
    while (this.steps !== 0) {
      const direction = this.steps > 0 ? 1 : -1;
      this.steps -= direction;
      const { previous, next } = await this.source.events(trace, at.thread, at.time, names);
      if (serial !== this.serial) return;
      const to = direction > 0 ? next : previous;
      if (!to) return page.say(`no ${direction > 0 ? "later" : "earlier"} event`);
      at = to;
      page.show_event(trace, at.thread, at.time);
    }
  }

  private is_own = false;

  /** Another call was selected: which one of those that were found is it? */
  follow(selected: Selected): void {
    const found = this.stage.found[selected.trace];
    if (this.is_own || !found?.has(selected.function) || !this.causes.is_cheap(selected.trace)) return;
    const { serial } = this;
    const is_still = (): boolean => serial === this.serial && this.stage.view.selected?.start === selected.start && !this.is_busy;
    void this.source.survey(selected.trace, [...found], selected).then(
      (survey: Survey) => is_still() && this.page.say(`call ${survey.before + 1} of ${survey.calls} found`),
      () => undefined,
    );
  }
}
