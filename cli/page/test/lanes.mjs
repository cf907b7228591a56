// The call tree, events, waits for locks, the order of threads, and that all that the pointer finds is drawn.
import { execFileSync } from "node:child_process";
import { strict as assert } from "node:assert";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { fragment, panel, settled, sought } from "./helpers.mjs";

const [GUTTER, WHOLE] = [180, 100_000];

async function look(page, from, to) {
  await page.evaluate((hash) => (location.hash = hash), `t=${from},${to}`);
  await settled(page);
}

const x_of = (ns, from = 0, to = WHOLE) => GUTTER + ((ns - from) / (to - from)) * (1280 - GUTTER);

/** The tree says what the command says, and opens and closes with keys. */
async function tree(page, report) {
  await page.keyboard.press("3");
  await settled(page);
  const rows = () => page.$$eval("#panel tr[data-path]", (rows) => rows.map((row) => [...row.querySelectorAll("td")].map((cell) => cell.title || cell.textContent)));
  const ns = (number) => `${number.toString().replace(/\B(?=(\d{3})+(?!\d))/g, ",")} ns`;
  const wanted = report.paths.map(({ name, calls, total_ns, self_ns, share }) => [ns(total_ns), ns(self_ns), `${(share * 100).toFixed(1)} %`, String(calls), name]);
  const outer = wanted.filter((_, nth) => report.paths[nth].depth === 0);
  assert.equal(wanted.length, outer.length + 1);
  await page.focus("#panel tr[data-path='0']");
  // A path of much time is open at first: to the path inside, back, and it is closed.
  await page.keyboard.press("ArrowRight");
  assert.deepEqual(await rows(), wanted);
  await page.keyboard.press("ArrowLeft");
  await page.keyboard.press("ArrowLeft");
  assert.deepEqual(await rows(), outer);
  assert.equal(await page.evaluate(() => document.activeElement.getAttribute("aria-expanded")), "false");
  await page.keyboard.press("Enter");
  assert.match(await page.textContent("#status"), /1 function found/);
  await page.focus("canvas");
  await page.keyboard.press("Escape");
  // The flame graph has the outermost function on top, as the lanes and the picture of fdr flame.
  await page.keyboard.press("2");
  await settled(page);
  assert.equal(await page.$eval("#panel .flame button[aria-label^='all']", (bar) => bar.style.top), "0px");
}

/** Events: told at the pointer, selected by a click and by keys, and searched. */
async function events(page, has_values) {
  await look(page, 0, WHOLE);
  const at = x_of(9000);
  const y = await sought(page, at, /^event rejected\nat 9\.0+ µs/);
  await page.mouse.click(at, y);
  await settled(page);
  assert.match(await panel(page), has_values ? /rejected.*number=7.*main \(thread 7\)/s : /rejected.*main \(thread 7\)/s);
  if (!has_values) assert.doesNotMatch(await panel(page), /number=7/);
  assert.match(await fragment(page), /event=0,0,-1,9000/);
  await page.focus("canvas");
  await page.keyboard.press("j");
  await settled(page);
  assert.match(await panel(page), /logged/);
  await page.keyboard.press("Shift+J");
  await settled(page);
  assert.match(await panel(page), /rejected/);
  await page.keyboard.press("/");
  await page.keyboard.type("logged");
  assert.match(await page.textContent("#status"), /^1 event found: N goes through them$/);
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => location.hash.includes("event=0,0,-1,59000"));
  await page.keyboard.press("Escape");
  await page.keyboard.press("Escape");
}

/** Waits: told at the pointer, and a click or a key goes to the holder. */
async function waits(page) {
  await look(page, 0, WHOLE);
  const at = x_of(30_000);
  const y = await sought(page, at, /^waited 30\.00 µs for table\nheld by worker-2 \(thread 8\), in app::save: a click shows it$/);
  // The arrow goes up from the begin of the wait to the holder, whose lane is above.
  const x = Math.round(x_of(19_000));
  const red = await page.$eval("canvas", (canvas, [x, y]) => {
    const wait = getComputedStyle(document.documentElement).getPropertyValue("--wait").trim().slice(1).match(/../g).map((part) => parseInt(part, 16));
    const context = canvas.getContext("2d");
    return Array.from({ length: 30 }, (_, up) => [x, x + 1].some((x) => {
      const pixel = context.getImageData(x, y - 2 - up, 1, 1).data;
      return wait.every((part, nth) => Math.abs(pixel[nth] - part) < 60);
    })).filter((is) => is).length;
  }, [x, y - (await (await page.$("canvas")).boundingBox()).y]);
  assert.ok(red > 20, `${red} pixels of the arrow`);
  await page.mouse.click(at, y);
  await settled(page);
  const holder = /app::save.*worker-2 \(thread 8\)/s;
  assert.match(await panel(page), holder);
  // By key, from the call that waited.
  await page.evaluate(() => (location.hash = "t=0,100000&call=0,1,0,1000,89000,1,0"));
  await settled(page);
  await page.focus("canvas");
  await page.keyboard.press("h");
  await settled(page);
  assert.match(await panel(page), holder);
}

/** The height at which a thread's calls are told. */
const lane_of = async (page, thread) => sought(page, x_of(40_000), new RegExp(`on ${thread} `));

/** Threads as people count; a pinned one is above all, and stays there. */
async function order(page) {
  await page.keyboard.press("Escape");
  await look(page, 0, WHOLE);
  const tops = [];
  for (const name of ["main", "worker-2", "worker-10"]) tops.push(await lane_of(page, name));
  assert.deepEqual(tops, [...tops].sort((one, other) => one - other));
  await page.evaluate(() => (location.hash = "t=0,100000&call=0,1,0,1000,89000,1,0"));
  await settled(page);
  await page.focus("canvas");
  await page.keyboard.press("k");
  await settled(page);
  assert.match(await fragment(page), /pin=0\/9/);
  const pinned = await lane_of(page, "worker-10");
  assert.ok(pinned < (await lane_of(page, "main")), "the pinned thread is above");
  // In a low window the others scroll below it.
  await page.setViewportSize({ width: 1280, height: 310 });
  await settled(page);
  await page.focus("canvas");
  await page.keyboard.press("PageDown");
  await settled(page);
  assert.ok(Number((await fragment(page)).match(/y=(\d+)/)?.[1] ?? 0) > 0, await fragment(page));
  assert.equal(await lane_of(page, "worker-10"), pinned);
  await page.setViewportSize({ width: 1280, height: 800 });
  await page.keyboard.press("k");
  await settled(page);
}

/** What the pointer finds at any place is drawn there: a bar of a call, a sign of an event, a line of a wait. */
async function found_is_drawn(page) {
  let calls = 0;
  let [signs, lines] = [0, 0];
  for (const [from, to] of [[0, WHOLE], [58_000, 80_000], [59_000, 61_000], [59_000, 59_200], [59_000, 59_040]]) {
    await look(page, from, to);
    const found = await page.$eval("canvas", (canvas) => {
      const image = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
      const style = getComputedStyle(document.documentElement);
      const colour = (name) => style.getPropertyValue(name).trim().slice(1).match(/../g).map((part) => parseInt(part, 16));
      const [back, wait, event] = ["--back", "--wait", "--event"].map(colour);
      const is = (x, y, wanted) => wanted.every((part, nth) => Math.abs(image[(y * canvas.width + x) * 4 + nth] - part) <= 2);
      const box = canvas.getBoundingClientRect();
      const tip = document.querySelector("#tip");
      const near = (x, y, by, up, test) => {
        for (let dx = -by; dx <= by; dx++) for (let dy = -up; dy <= up; dy++) if (test(x + dx, y + dy)) return true;
        return false;
      };
      const counts = { band: 0, calls: 0, signs: 0, lines: 0, bad: [] };
      for (let y = 66; y < canvas.height - 3; y += 3) {
        for (let x = 186; x < canvas.width - 3; x += 11) {
          canvas.dispatchEvent(new PointerEvent("pointermove", { clientX: box.left + x, clientY: box.top + y, bubbles: true }));
          const text = tip.hidden ? "" : tip.textContent;
          // What is not known has no colour.
          if (!text || /^(no recorded|its state is not known$)/.test(text)) continue;
          const kind = text.startsWith("event ") ? "signs" : /wait(ed|s?) .*for /.test(text.split("\n")[0]) ? "lines" : /^(CPU|last on CPU|running|preempted|waiting|mostly) /.test(text) ? "band" : "calls";
          const by = kind === "signs" ? 6 : 2;
          // An arrow may cover a sign.
          const test = { signs: (x, y) => is(x, y, event) || is(x, y, wait), lines: (x, y) => is(x, y, wait), band: (x, y) => !is(x, y, back), calls: (x, y) => !is(x, y, back) }[kind];
          counts[kind]++;
          // The words of the band hold for all of its height.
          if (!near(x, y, by, kind === "band" ? 8 : 2, test)) counts.bad.push(`${x},${y}: ${text}`);
        }
      }
      return counts;
    });
    assert.deepEqual(found.bad, [], `${from} to ${to}`);
    [calls, signs, lines] = [calls + found.calls, signs + found.signs, lines + found.lines];
  }
  assert.ok(calls > 500 && signs > 0 && lines > 50, `${calls} places of calls, ${signs} of events, ${lines} of waits`);
}

export async function lanes({ served, open, json, fdr, folder, waiting }) {
  const report = json("report", "--tree", "--min", "0.05%", "--json", waiting);
  const all = async (url, is_file) => {
    const { page, bad, context } = await open(url);
    await tree(page, report);
    await events(page, !is_file);
    await waits(page);
    await order(page);
    await page.evaluate(() => (location.hash = "t=0,100000"));
    await found_is_drawn(page);
    assert.deepEqual(bad, []);
    await context.close();
  };
  await served(waiting, (url) => all(url, false));
  const file = join(folder, "waiting.html");
  execFileSync(fdr, ["view", "-o", file, waiting], { stdio: "ignore" });
  await all(pathToFileURL(file).href, true);
}
