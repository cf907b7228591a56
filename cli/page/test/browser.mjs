// The page in a browser, as a person uses it: served and from a file, with the mouse and with keys alone. Every check says
// what it saw. Run by the tests of the workspace: node browser.mjs BROWSER FDR TRACE HOSTILE-TRACE FOLDER PID
import { chromium } from "playwright-core";
import { execFileSync, spawn } from "node:child_process";
import { strict as assert } from "node:assert";
import { createInterface } from "node:readline";
import { statSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [executablePath, fdr, trace, hostile, folder, pid] = process.argv.slice(2);
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
const json = (...words) => JSON.parse(execFileSync(fdr, words, { maxBuffer: 1 << 28 }).toString());

/** Serves a trace while something is done. */
async function served(path, use) {
  const server = spawn(fdr, ["view", "--no-open", path], { stdio: ["ignore", "pipe", "inherit"] });
  try {
    const [line] = await new Promise((done) => createInterface({ input: server.stdout }).once("line", (line) => done([line])));
    await use(line.slice(line.indexOf("http://")));
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

/** Until nothing more is drawn. */
async function settled(page) {
  const picture = () => page.evaluate(() => document.querySelector("canvas").toDataURL().length + document.querySelector("#panel").textContent);
  for (let last = "", same = 0; same < 3; ) {
    await page.waitForTimeout(80);
    const now = await picture();
    same = now === last && !/reading…|counting|comparing/.test(now) ? same + 1 : 0;
    last = now;
  }
}

const fragment = (page) => page.evaluate(() => location.hash);
const panel = (page) => page.textContent("#panel .body");

/** The rows of the table: function and the ns of each cell. */
const table = (page) =>
  page.$$eval("#panel tbody tr[data-function]", (rows) =>
    rows.map((row) => ({ id: Number(row.dataset.function), cells: [...row.querySelectorAll("td")].map((cell) => cell.title || cell.textContent) })));

const number = (text) => (text === "-" ? null : Number(text.replace(/[^0-9]/g, "")));

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
  await page.keyboard.press("Enter");
  assert.match(await page.textContent("#status"), /1 function found/);
  await page.keyboard.press("n");
  await page.waitForFunction(() => /call \d+ of \d+ found/.test(document.querySelector("#status").textContent));
  await settled(page);
  assert.match(await panel(page), /app::leaf/);
  assert.match(await panel(page), /of [\d,]+ calls|longest|shortest/);
  await page.keyboard.press("f");
  await settled(page);
}

await served(trace, async (url) => {
  const { page, bad, context } = await open(url);
  const threads = json("info", "--json", trace).threads.length;
  assert.match(await page.textContent("#status"), new RegExp(`^${threads} threads`));
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
