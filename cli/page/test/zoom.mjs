// What the lanes show at every zoom, from the whole trace to 1 µs, against the calls that the server has: a call covers its
// place on the screen, and where no call is, nothing is drawn.
import { strict as assert } from "node:assert";
import { settled } from "./helpers.mjs";

const [GUTTER, AXIS, ROW, BAND] = [180, 64, 16, 16];
/** A gap that is wider than this can't be a place of joined calls, px. */
const GAP = 6;

/** The calls of a thread by depth, as the server has them: begin and end in ticks. Only those are joined that are far shorter
 * than a pixel. */
async function calls_of(url, trace, from, to) {
  const tick = (ns) => trace.begin + (ns * trace.frequency) / 1e9;
  const answer = await fetch(`${url}api/lanes?threads=0&from=${tick(from)}&to=${tick(to)}&pixel=0`);
  const bytes = new DataView(await answer.arrayBuffer());
  const rows = [];
  for (let [depth, at] = [0, 24]; depth < bytes.getUint32(4, true); depth++) {
    const count = bytes.getUint32(at, true);
    const column = (nth) => Array.from({ length: count }, (_, call) => bytes.getFloat64(at + 8 + nth * 8 * count + call * 8, true));
    const [starts, ends] = [column(0), column(1)];
    rows.push(starts.map((start, nth) => [start, ends[nth]]));
    at += 8 + 24 * count;
  }
  return rows;
}

/** Whether each pixel of a row of calls is drawn. */
const drawn = (page, depths) =>
  page.evaluate(([axis, band, row, depths]) => {
    const canvas = document.querySelector("canvas");
    const context = canvas.getContext("2d");
    const line = (y) => context.getImageData(0, y, canvas.width, 1).data;
    // Above the calls there is nothing but the band.
    const empty = context.getImageData(canvas.width - 2, axis + band - 2, 1, 1).data;
    return Array.from({ length: depths }, (_, depth) => {
      const pixels = line(axis + band + depth * row + 1);
      return Array.from({ length: canvas.width }, (_, x) => [0, 1, 2].some((part) => pixels[x * 4 + part] !== empty[part]));
    });
  }, [AXIS, BAND, ROW, depths]);

/** Compares what is drawn of a stretch in ns. Returns how many calls and gaps were looked at. */
async function compare(page, trace, rows, from, to) {
  const shown = await page.evaluate(() => location.hash.match(/t=(-?\d+),(-?\d+)/).slice(1).map(Number));
  assert.deepEqual(shown, [from, to]);
  const lines = await drawn(page, rows.length);
  const width = lines[0].length;
  const x = (tick) => GUTTER + ((((tick - trace.begin) * 1e9) / trace.frequency - from) / (to - from)) * (width - GUTTER);
  let looked = 0;
  rows.forEach((calls, depth) => {
    const where = (at) => `depth ${depth}, pixel ${at} of ${from} to ${to} ns`;
    let last = GUTTER;
    const gap = (until) => {
      if (until - last <= GAP) return;
      const at = Math.round((last + until) / 2);
      assert.ok(!lines[depth][at], `a bar without a call: ${where(at)}`);
      looked++;
    };
    for (const [start, end] of calls) {
      const [left, right] = [Math.max(x(start), GUTTER), Math.min(x(end), width)];
      if (right <= GUTTER || left >= width - 1) continue;
      gap(left);
      last = Math.max(last, right);
      const at = Math.floor((left + right) / 2);
      const near = [at - 1, at, at + 1].filter((at) => at >= GUTTER && at < width);
      assert.ok(near.some((at) => lines[depth][at]), `a call without a bar: ${where(at)}`);
      looked++;
    }
    gap(width);
  });
  return looked;
}

export async function every_zoom(url, page) {
  const trace = (await (await fetch(`${url}api/info`)).json()).traces[0];
  const whole = Math.round(((trace.end - trace.begin) * 1e9) / trace.frequency);
  const ns = (tick) => Math.round(((tick - trace.begin) * 1e9) / trace.frequency);
  let [looked, levels] = [0, 0];
  for (const share of [0, 0.37, 0.74, 0.999]) {
    // Around a call, so that there is something to see.
    const near = await calls_of(url, trace, whole * share, whole * share + whole / 30);
    const middle = ns(near[0].at(-1)[0]) + 1000;
    for (let width = whole; width >= 1000; width = width > 1000 && width < 8000 ? 1000 : Math.floor(width / 8), levels++) {
      const from = Math.max(0, Math.min(Math.round(middle - width / 3), whole - width));
      await page.evaluate((hash) => (location.hash = hash), `t=${from},${from + width}`);
      await settled(page);
      const rows = await calls_of(url, trace, from, from + width);
      looked += await compare(page, trace, rows, from, from + width);
    }
  }
  assert.ok(levels >= 40 && looked > 500, `${levels} levels, ${looked} calls and gaps`);
}
