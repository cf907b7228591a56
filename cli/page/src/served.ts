// Asks the server that gave the page.

import { Call, Curve, Details, Events, Flame, Info, Marked, Picture, Report, Slow, Source, Survey, Task, Tree } from "./model";
import { curves, pictures } from "./wire";

type Values = Record<string, string | number | undefined>;

export class Served implements Source {
  readonly is_served = true;
  /** Which snapshot the page means. */
  private number: number | undefined;

  constructor(private readonly tell: Record<"gone" | "replaced" | "outdated", () => void>) {}

  /** For as long as this is read, the server knows that the page is open. */
  async stay(): Promise<void> {
    try {
      const answer = await fetch("api/alive");
      const reader = answer.body?.getReader();
      // Each beat says whether the files are still those that are shown.
      for (let beat = await reader?.read(); beat && !beat.done; beat = await reader?.read()) {
        if (new TextDecoder().decode(beat.value).includes("r")) this.tell.replaced();
      }
    } catch {
      // Told below.
    }
    this.tell.gone();
  }

  async ask(path: string, values: Values = {}, signal?: AbortSignal): Promise<Response> {
    const pairs = Object.entries({ snapshot: this.number, ...values }).filter(([, value]) => value !== undefined);
    const query = new URLSearchParams(pairs.map(([name, value]) => [name, String(value)]));
    for (let tries = 0; ; tries++) {
      try {
        const answer = await fetch(`api/${path}?${query}`, { signal: signal ?? null });
        if (answer.status === 409) this.tell.outdated();
        if (!answer.ok) throw new Refused((await answer.text()).trim());
        return answer;
      } catch (error) {
        // The server may have had no room for another connection.
        if (error instanceof Refused || signal?.aborted || tries >= 3) throw error;
        await new Promise((done) => setTimeout(done, 300 * (tries + 1)));
      }
    }
  }

  async json<T>(path: string, values: Values = {}, signal?: AbortSignal): Promise<T> {
    return (await (await this.ask(path, values, signal)).json()) as T;
  }

  async info(): Promise<Info> {
    return this.seen(await this.json("info"));
  }

  async snapshot(): Promise<Info> {
    return this.seen(await this.json("snapshot"));
  }

  private seen(info: Info): Info {
    this.number = info.snapshot ?? undefined;
    return info;
  }

  async lanes(trace: number, threads: number[], from: number, to: number, pixel: number, signal?: AbortSignal, found?: number[]): Promise<Picture[]> {
    const answer = await this.ask("lanes", { trace, threads: threads.join(","), from, to, pixel, found: found?.join(",") }, signal);
    return pictures(await answer.arrayBuffer());
  }

  async curves(trace: number, from: number, to: number, pixel: number, signal?: AbortSignal): Promise<Curve[]> {
    const answer = await this.ask("curves", { trace, from, to, pixel }, signal);
    return curves(await answer.arrayBuffer());
  }

  async tasks(trace: number, lanes: number[], from: number, to: number, pixel: number, signal?: AbortSignal): Promise<Picture[]> {
    const answer = await this.ask("tasks", { trace, lanes: lanes.join(","), from, to, pixel }, signal);
    return pictures(await answer.arrayBuffer());
  }

  task(trace: number, wanted: string | number, at: number): Promise<Task> {
    return this.json("task", { trace, at, ...(typeof wanted === "string" ? { task: wanted } : { lane: wanted }) });
  }

  events(trace: number, thread: number, at: number, names: number[]): Promise<Events> {
    return this.json("event", { trace, thread, at, names: names.join(",") });
  }

  table(trace: number, marked: Marked, signal?: AbortSignal): Promise<Report> {
    return this.json("table", { trace, ...of(marked) }, signal);
  }

  flame(trace: number, marked: Marked, by: string, signal?: AbortSignal): Promise<Flame> {
    return this.json("flame", { trace, by, ...of(marked) }, signal);
  }

  tree(trace: number, marked: Marked, signal?: AbortSignal): Promise<Tree> {
    return this.json("tree", { trace, ...of(marked) }, signal);
  }

  slow(trace: number, marked: Marked, signal?: AbortSignal): Promise<Slow> {
    return this.json("slow", { trace, ...of(marked) }, signal);
  }

  details(trace: number, call: Call): Promise<Details> {
    return this.json("call", { trace, ...of_call(call) });
  }

  survey(trace: number, functions: number[], at: Call | null, marked: Marked = {}, signal?: AbortSignal): Promise<Survey> {
    return this.json("survey", { trace, functions: functions.join(","), ...(at ? of_call(at) : {}), ...of(marked) }, signal);
  }

  why(trace: number, call: Call): Promise<Slow> {
    return this.json("why", { trace, ...of_call(call) });
  }
}

/** An answer that says no. */
class Refused extends Error {}

/** A stretch as values of a request. */
export const of = (marked: Marked): Values => ({
  from_ns: marked.from_ns,
  to_ns: marked.to_ns,
  threads: marked.threads?.join(","),
});

const of_call = (call: Call): Values => ({
  thread: call.thread,
  depth: call.depth,
  start: call.start,
  end: call.end,
  function: call.function,
  flags: call.flags,
});
