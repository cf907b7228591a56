// The page in a browser, as a person uses it: served and from a file, with the mouse and with keys alone. Every check says
// what it saw. Run by the tests of the workspace: node browser.mjs BROWSER FDR FOLDER PID TRACE HOSTILE
// NOTED CHANGED SPREAD MORE LESS ENDED WAITING, where the last nine are traces
import { chromium } from "playwright-core";
import { execFileSync, spawn } from "node:child_process";
import { strict as assert } from "node:assert";
import { createInterface } from "node:readline";
import { statSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { fragment, number, panel, settled, sought, told } from "./helpers.mjs";
import { banners } from "./banners.mjs";
import { lanes } from "./lanes.mjs";
import { slow_call } from "./slow_call.mjs";
import { every_zoom } from "./zoom.mjs";

const [executablePath, fdr, folder, pid, trace, hostile, noted, changed, spread, more, less, ended, waiting] = process.argv.slice(2);
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
const json = (...words) => JSON.parse(execFileSync(fdr, words, { maxBuffer: 1 << 28 }).toString());

/** Serves traces while something is done. */
async function served(paths, use) {
  const server = spawn(fdr, ["view", "--no-open", ...[paths].flat()], { stdio: ["ignore", "pipe", "inherit"] });
  try {
    const [line] = await new Promise((done) => createInterface({ input: server.stdout }).once("line", (line) => done([line])));
    await use(line.slice(line.indexOf("http://")), server);
  } finally {
    server.kill();
  }
}

/** Opens a page; whatever goes wrong in it, or leaves it, is kept. */
async function open(url, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, ...options });
  const page = await context.newPage();
  const bad = [];
  const own = url.startsWith("http") ? new URL(url).origin : "file://";
  page.on("dialog", (dialog) => (bad.push(`dialog: ${dialog.message()}`), dialog.dismiss()));
  page.on("pageerror", (error) => bad.push(`error: ${error.message}`));
  page.on("console", (message) => message.type() === "error" && bad.push(`console: ${message.text()}`));
  page.on("request", (request) => {
    const from = request.url().startsWith("file:") ? "file://" : request.url().startsWith("blob:") ? own : new URL(request.url()).origin;
    if (from !== own) bad.push(`request: ${request.url()}`);
  });
  await page.goto(url);
  await page.waitForFunction(() => /thread/.test(document.querySelector("#status")?.textContent ?? ""));
  await settled(page);
  return { page, bad, context };
}

/** The rows of the table: function and the ns of each cell. */
const table = (page) =>
  page.$$eval("#panel tbody tr[data-function]", (rows) =>
    rows.map((row) => ({ id: Number(row.dataset.function), cells: [...row.querySelectorAll("td")].map((cell) => (cell.title.endsWith(" ns") ? cell.title : cell.textContent)) })));

/** The table says what the report says, to the nanosecond. */
function same(rows, report) {
  const found = new Map(rows.map((row) => [row.id, row.cells.slice(0, 7).map(number)]));
  assert.equal(rows.length, report.functions.length);
  for (const row of report.functions) {
    const wanted = [row.calls, row.total_ns, row.self_ns, row.mean_ns, row.p50_ns, row.p99_ns, row.max_ns];
    assert.deepEqual(found.get(row.id), wanted, row.name);
  }
}

/** With keys alone: zoom, a call, its details, the mark and its table, search. */
async function keys(page) {
  await page.focus("canvas");
  const whole = await fragment(page);
  await page.keyboard.press("ArrowRight");
  await settled(page);
  assert.match(await panel(page), /thread.*depth/s);
  await page.keyboard.press("ArrowDown");
  await settled(page);
  assert.match(await fragment(page), /call=0,\d+,1,/);
  await page.keyboard.press("w");
  await page.keyboard.press("d");
  await page.waitForFunction((whole) => location.hash !== whole, whole);
  await page.keyboard.press("m");
  await settled(page);
  await page.waitForFunction(() => location.hash.includes("mark="));
  assert.ok((await table(page)).length > 0);
  await page.keyboard.press("Escape");
  await page.keyboard.press("/");
  await page.keyboard.type("leaf");
  assert.match(await page.textContent("#status"), /1 function found/);
  // Enter goes to the first one that is shown; no press of a key is lost.
  await page.keyboard.press("Enter");
  const counted = async () => {
    await page.waitForFunction(() => /call \d+ of \d+ found/.test(document.querySelector("#status").textContent));
    await settled(page);
    return number((await page.textContent("#status")).split(" of ")[0]);
  };
  const first = await counted();
  for (let nth = 0; nth < 5; nth++) await page.keyboard.press("n");
  await settled(page);
  assert.equal(await counted(), first + 5);
  await page.keyboard.press("p");
  await settled(page);
  assert.equal(await counted(), first + 4);
  assert.match(await panel(page), /app::leaf/);
  assert.match(await panel(page), /of [\d,]+ calls|longest|shortest/);
  await page.keyboard.press("f");
  await settled(page);
}

await served(trace, async (url) => {
  const { page, bad, context } = await open(url);
  await slow_call(page, false);
  const threads = json("info", "--json", trace).threads.length;
  // What the status line said last does not stay.
  await page.waitForFunction((words) => document.querySelector("#status").textContent.startsWith(words), `${threads} threads`);
  await page.click("header button:has-text('Functions')");
  await settled(page);
  same(await table(page), json("report", "--json", "--window", trace));
  // A stretch that is marked with the mouse.
  await page.keyboard.down("Shift");
  await page.mouse.move(500, 150);
  await page.mouse.down();
  await page.mouse.move(700, 160, { steps: 4 });
  await page.mouse.up();
  await page.keyboard.up("Shift");
  await settled(page);
  await page.waitForFunction(() => location.hash.includes("mark="));
  const [, from, to] = (await fragment(page)).match(/mark=(\d+),(\d+)/);
  same(await table(page), json("report", "--json", "--since", `+${from}ns`, "--until", `+${to}ns`, trace));
  for (const tab of ["Flame graph", "Slow calls", "Call"]) {
    await page.click(`#panel [role=tab]:has-text('${tab}')`);
    await settled(page);
    assert.ok((await panel(page)).length > 20, tab);
    assert.equal(await page.$("#panel [role=alert]"), null, await panel(page));
  }
  // The wheel zooms at the pointer.
  const before = await fragment(page);
  await page.mouse.move(640, 200);
  await page.mouse.wheel(0, -600);
  await page.waitForFunction((before) => location.hash !== before, before);
  await keys(page);
  // The same view in another copy; the token is no part of it.
  const view = await fragment(page);
  assert.ok(!view.includes(new URL(url).pathname.slice(1, -1)));
  const other = await open(url + view, { colorScheme: "dark" });
  await other.page.waitForTimeout(400);
  assert.equal(await fragment(other.page), view);
  const dark = await other.page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  assert.notEqual(dark, await page.evaluate(() => getComputedStyle(document.body).backgroundColor));
  assert.deepEqual([bad, other.bad], [[], []]);
  await context.close();
  console.log("served: ok");
});

const file = join(folder, "page.html");
execFileSync(fdr, ["view", "-o", file, trace], { stdio: "ignore" });
assert.ok(statSync(file).size < 20e6);
{
  const { page, bad, context } = await open(pathToFileURL(file).href);
  await slow_call(page, true);
  await page.click("header button:has-text('Functions')");
  await settled(page);
  same(await table(page), json("report", "--json", "--window", trace));
  await keys(page);
  await page.click("#panel [role=tab]:has-text('Flame graph')");
  await settled(page);
  assert.ok((await page.$$("#panel .flame button")).length > 2);
  assert.deepEqual(bad, []);
  await context.close();
  console.log("from a file: ok");
}

/** Shows a stretch of time. */
async function look(page, from, to) {
  await page.evaluate((hash) => (location.hash = hash), `t=${from},${to}`);
  await settled(page);
}

/** Where a time is on the screen, of a stretch that is shown. */
const x_of = (ns, from, to) => 180 + ((ns - from) / (to - from)) * 1100;

/** Counters: every spike is seen, and the value that holds where none is set. */
async function counters(page) {
  const [end, spike] = [244_000, 162_461];
  await look(page, 0, end);
  const y = await sought(page, x_of(spike, 0, end), /^queue: 3 to 90, then 3\n/);
  for (const [from, to, at, text] of [
    [spike - 50, spike + 50, spike + 20, /^queue: 90$/],
    // Behind the spike and before the next value; then behind the last value of all.
    [spike + 5, spike + 30, spike + 20, /^queue: 90$/],
    [spike + 2000, spike + 2020, spike + 2010, /^queue: 3$/],
    [243_000, 243_900, 243_500, /^queue: 3$/],
    [0, 900, 500, /^queue\nno value yet$/],
  ]) {
    await look(page, from, to);
    await page.mouse.move(x_of(at, from, to), y - 1);
    await page.mouse.move(x_of(at, from, to), y);
    assert.match(await told(page), text);
  }
  await look(page, 0, end);
  await sought(page, 1200, /^load: 1\.\d+$/);
}

/** Tasks: hidden at first; a task's figures; from a poll to its call and back, with the mouse and with keys. */
async function tasks(page, has_values) {
  const [from, to] = [0, 30_000];
  await look(page, from, to);
  // Between the first and the second poll of the first task.
  const wait = x_of(3500, from, to);
  await sought(page, wait, /^task/, false);
  await page.focus("canvas");
  await page.keyboard.press("o");
  await settled(page);
  const y = await sought(page, wait, /^task app::fetch, 9\.000 µs\nwaits$/);
  await page.mouse.click(wait, y);
  await settled(page);
  const text = await panel(page);
  for (const part of [/elapsed9\.000 µs \(9,000 ns\)/, /busy3\.000 µs \(3,000 ns\) in 3 polls \(33\.3 %\)/, /waiting6\.000 µs \(6,000 ns\) \(66\.7 %\)/, /it finished/, /waited 3\.000 µs/]) {
    assert.match(text, part);
  }
  if (has_values) assert.match(text, /address="<b>example<\/b>".*result=201/s);
  assert.match(await fragment(page), /task=0,1,0,1000/);
  // The second poll, which is a call of another thread.
  const at = await page.$eval("canvas", (canvas) => canvas.getBoundingClientRect().top);
  const shown = (await fragment(page)).match(/t=(-?\d+),(-?\d+)/).slice(1).map(Number);
  const poll = x_of(5500, ...shown);
  const lane = await sought(page, poll, /^task app::fetch, 9\.000 µs\na poll of 1\.000 µs/);
  assert.ok(lane > at);
  await page.mouse.click(poll, lane);
  await settled(page);
  assert.match(await fragment(page), /call=0,[01],1,5000,6000,2,0/);
  assert.match(await panel(page), /A poll of task 1: show the task/);
  // A call in which the counter has its spike, for those who have no pointer.
  await page.evaluate(() => (location.hash = "t=160000,165000&call=0,1,0,0,244000,1,0"));
  await settled(page);
  assert.match(await panel(page), /queue: no value at its begin, then 3 to 90, 3 at its end/);
  await page.evaluate(() => (location.hash = "t=0,30000&call=0,1,1,5000,6000,2,0"));
  await settled(page);
  await page.focus("#panel button:has-text('A poll of task 1')");
  await page.keyboard.press("Enter");
  await settled(page);
  assert.match(await panel(page), /poll 2, \S+ \(thread \d\), this one/);
  await page.click("#panel tr[data-poll='3'] button");
  await settled(page);
  assert.match(await fragment(page), /call=0,[01],1,9000,10000,2,0/);
  // The one that was dropped.
  await look(page, 0, 30_000);
  const dropped = x_of(22_500, 0, 30_000);
  await page.mouse.click(dropped, await sought(page, dropped, /^task/));
  await settled(page);
  assert.match(await panel(page), /number 6.*was dropped/s);
  await page.keyboard.press("Escape");
}

/** CPU changes: which CPU a thread was on. */
async function cpus(page) {
  await look(page, 4000, 8000);
  await sought(page, x_of(5500, 4000, 8000), /^CPU [0-2] for [\d.]+ µs$/);
}

for (const is_file of [false, true]) {
  const all = async (url) => {
    const { page, bad, context } = await open(url);
    await counters(page);
    await tasks(page, !is_file);
    await cpus(page);
    assert.deepEqual(bad, []);
    await context.close();
  };
  const file = join(folder, "noted.html");
  execFileSync(fdr, ["view", "--force", "-o", file, noted], { stdio: "ignore" });
  await (is_file ? all(pathToFileURL(file).href) : served(noted, all));
  console.log(`counters, tasks and CPUs ${is_file ? "from a file" : "served"}: ok`);
}

/** The rows of the comparison: by function, the ns or the numbers of its cells. */
const compared = (page) =>
  page.$$eval("#panel tr[data-compared]", (rows) =>
    rows.map((row) => [row.querySelector(".name").textContent, [...row.querySelectorAll("td:not(.name)")].map((cell) => (cell.title || cell.textContent).replace(/, .*%$/, ""))]));

/** The comparison says what the reports of both say. */
async function same_change(page, options) {
  await page.click("header button:has-text('Functions')");
  await settled(page);
  const reports = [noted, changed].map((path, nth) => new Map(json("report", "--json", ...options[nth], path).functions.map((row) => [row.name, row])));
  const names = new Set(reports.flatMap((report) => [...report.keys()]));
  const rows = await compared(page);
  assert.equal(rows.length, names.size);
  for (const [name, cells] of rows) {
    const wanted = ["calls", "total_ns", "self_ns"].flatMap((figure) => {
      const [before, after] = reports.map((report) => report.get(name)?.[figure] ?? 0);
      return [before, after, after - before];
    });
    // A function that was not called has no slowest call.
    const [before, after] = reports.map((report) => report.get(name)?.max_ns ?? null);
    wanted.push(before, after, before === null || after === null ? null : after - before);
    const figures = cells.map((text) => (text === "-" ? null : (text.includes("-") ? -1 : 1) * number(text)));
    assert.deepEqual(figures, wanted.map((figure) => (figure === null ? null : figure + 0)), name);
  }
}

for (const is_file of [false, true]) {
  const both = async (url) => {
    const { page, bad, context } = await open(url);
    await same_change(page, [["--window"], ["--window"]]);
    // How exact the clocks are is said, or why they can't be taken.
    const aligned = page.locator("header select");
    await aligned.selectOption("clock");
    await page.waitForFunction(() => /aligned by clocks|at which time of day/.test(document.querySelector("#status").textContent));
    await aligned.selectOption("begin");
    const [, , , , , self] = (await compared(page)).find(([name]) => name === "app::leaf")[1];
    assert.equal(number(self), 160_000);
    // By the clocks: the second one began 30 µs later.
    await page.selectOption("header select", "clock");
    await page.waitForFunction(() => location.hash.includes("shift=0,30000"));
    // The time that is marked is another one in each.
    await look(page, 0, 200_000);
    await page.evaluate(() => (location.hash = "t=0,200000&mark=100000,150000&shift=0,30000"));
    await settled(page);
    const since = (from, to) => ["--since", `+${from}ns`, "--until", `+${to}ns`];
    await same_change(page, [since(100_000, 150_000), since(70_000, 120_000)]);
    // By a call of each: with keys alone.
    await page.keyboard.press("Escape");
    const call = (trace, start, end) => page.evaluate((hash) => (location.hash = hash), `t=0,200000&call=${trace},0,1,${start},${end},3,0&shift=0,30000`);
    for (const [trace, start, end] of [[0, 59_000, 59_020], [1, 49_000, 49_060]]) {
      await call(trace, start, end);
      await settled(page);
    }
    await page.focus("canvas");
    await page.keyboard.press("l");
    await page.waitForFunction(() => location.hash.includes("shift=0,10000"));
    assert.equal(await page.$eval("header select", (select) => select.value), "call");
    assert.deepEqual(bad, []);
    await context.close();
  };
  const file = join(folder, "two.html");
  execFileSync(fdr, ["view", "--force", "-o", file, noted, changed], { stdio: "ignore" });
  await (is_file ? both(pathToFileURL(file).href) : served([noted, changed], both));
  console.log(`two traces ${is_file ? "from a file" : "served"}: ok`);
}

await served(hostile, async (url) => {
  const whole = join(folder, "hostile.html");
  execFileSync(fdr, ["view", "-o", whole, hostile], { stdio: "ignore" });
  for (const place of [url, pathToFileURL(whole).href]) {
    const { page, bad, context } = await open(place);
    const names = json("report", "--json", "--window", hostile).functions.length;
    await page.click("header button:has-text('Functions')");
    await settled(page);
    assert.equal((await table(page)).length, names);
    assert.ok(names >= 50, `${names} names`);
    await page.click("#panel [role=tab]:has-text('Flame graph')");
    await settled(page);
    await page.focus("canvas");
    // A task, its values and its call.
    await page.keyboard.press("o");
    await settled(page);
    const task = await sought(page, 640, /^task /);
    await page.mouse.click(640, task);
    await settled(page);
    await page.click("#panel [role=tab]:has-text('Task')");
    await settled(page);
    assert.ok((await panel(page)).length > 20);
    await page.focus("canvas");
    for (let y = 70; y < 460; y += 8) await page.mouse.move(640, y);
    for (let nth = 0; nth < 12; nth++) {
      await page.keyboard.press("ArrowRight");
      await page.mouse.move(300 + nth * 60, 120);
    }
    await settled(page);
    // Nothing but what the page itself is made of, and no character that acts on others.
    assert.deepEqual(await page.$$eval("img, svg, iframe, object, embed, a, link, base, body style", (found) => found.length), 0);
    assert.doesNotMatch(await page.evaluate(() => document.body.innerText), /[\u0000-\u0008\u000b-\u001f\u200b-\u200f\u202a-\u202e\u2066-\u2069]/);
    assert.equal(await page.evaluate(() => window.hacked), undefined);
    assert.deepEqual(bad, []);
    await context.close();
  }
  console.log("hostile names: ok");
});
{
  // Of runs whose calls are not all in the trace any more, the whole runs are shown and compared.
  const whole = [more, less].map((path) => json("report", "--json", path).whole_run);
  const both = async (url) => {
    const { page, bad, context } = await open(url);
    await page.click("header button:has-text('Functions')");
    await settled(page);
    const [[name, cells]] = await compared(page);
    assert.deepEqual([name, ...cells.slice(0, 3).map(number)], ["app::step", 4000, 4000, 0]);
    assert.match(await panel(page), /figures of the whole runs/);
    same(await table(page), { functions: whole.flat() });
    // Of a stretch, what is there of it.
    await page.evaluate(() => (location.hash = "t=0,400000&mark=0,400000"));
    await settled(page);
    assert.deepEqual((await compared(page))[0][1].slice(0, 2).map(number), [1500, 815]);
    assert.deepEqual(bad, []);
    await context.close();
  };
  await served([more, less], both);
  const file = join(folder, "runs.html");
  execFileSync(fdr, ["view", "-o", file, more, less], { stdio: "ignore" });
  await both(pathToFileURL(file).href);
  console.log("whole runs: ok");
}

await served(spread, async (url) => {
  const { page, bad, context } = await open(url);
  await every_zoom(url, page);
  assert.deepEqual(bad, []);
  await context.close();
  console.log("every zoom: ok");
});

await banners({ served, open, fdr, folder, ended });
console.log("banners: ok");

await lanes({ served, open, json, fdr, folder, waiting });
console.log("call tree, events, waits and pins: ok");

// A process that runs: each press of R shows what it has done by then, and the page looks at the same time.
await served(pid, async (url) => {
  const { page, bad, context } = await open(url);
  const calls = async () => {
    await page.click("header button:has-text('Functions')");
    await settled(page);
    return (await table(page)).reduce((sum, row) => sum + number(row.cells[0]), 0);
  };
  const before = await calls();
  assert.ok(before > 0);
  await page.focus("canvas");
  for (const key of ["w", "w", "a"]) await page.keyboard.press(key);
  await settled(page);
  const ns = async () => (await fragment(page)).match(/t=(-?\d+),(-?\d+)/).slice(1).map(Number);
  const [from, to] = await ns();
  for (let tries = 0; (await calls()) <= before; tries++) {
    assert.ok(tries < 100, `always ${before} calls`);
    await page.keyboard.press("r");
    await page.waitForTimeout(300);
  }
  const [later, end] = await ns();
  assert.ok(Math.abs(end - later - (to - from)) <= 2, `${to - from} ns were shown, then ${end - later}`);
  await page.click("header button:has-text('New snapshot')");
  await settled(page);
  assert.deepEqual(bad, []);
  await context.close();
  console.log("a running process: ok");
});
await browser.close();
