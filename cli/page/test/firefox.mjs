// The one-file page in Firefox, by WebDriver BiDi: it loads, draws, and answers keys. Run by the tests of the workspace:
// node firefox.mjs FIREFOX FILE FOLDER [PICTURE]
import { spawn } from "node:child_process";
import { strict as assert } from "node:assert";
import { createInterface } from "node:readline";
import { mkdirSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { pathToFileURL } from "node:url";

const [firefox, file, folder, picture] = process.argv.slice(2);
// playwright-core can't drive Debian's Firefox, but has a web socket that can.
const { resolve } = createRequire(import.meta.url);
const { default: utilities } = await import(join(dirname(resolve("playwright-core/package.json")), "lib/utilsBundle.js"));
const profile = join(folder, "firefox");
mkdirSync(profile, { recursive: true });
const options = ["--headless", "--no-remote", "--profile", profile, "--remote-debugging-port", "0"];
const browser = spawn(firefox, options, { stdio: ["ignore", "ignore", "pipe"], env: { ...process.env, HOME: folder } });
try {
  const address = await new Promise((done, failed) => {
    createInterface({ input: browser.stderr }).on("line", (line) => {
      const found = line.match(/WebDriver BiDi listening on (ws:\S+)/);
      if (found) done(found[1]);
    });
    browser.once("exit", () => failed(new Error("firefox has ended")));
  });
  const socket = new utilities.ws(`${address}/session`);
  await new Promise((done, failed) => socket.on("open", done).on("error", failed));
  const waiting = new Map();
  const bad = [];
  socket.on("message", (text) => {
    const message = JSON.parse(text);
    if (message.method === "log.entryAdded" && message.params.level === "error") bad.push(message.params.text);
    const [done, failed] = waiting.get(message.id) ?? [];
    if (message.type === "error") failed?.(new Error(message.message));
    else done?.(message.result);
  });
  let last = 0;
  const ask = (method, params) => new Promise((done, failed) => {
    waiting.set(++last, [done, failed]);
    socket.send(JSON.stringify({ id: last, method, params }));
  });
  await ask("session.new", { capabilities: {} });
  await ask("session.subscribe", { events: ["log.entryAdded"] });
  const { contexts: [{ context }] } = await ask("browsingContext.getTree", {});
  await ask("browsingContext.setViewport", { context, viewport: { width: 1280, height: 800 } });
  await ask("browsingContext.navigate", { context, url: pathToFileURL(file).href, wait: "complete" });
  const evaluate = async (expression) => {
    const answer = await ask("script.evaluate", { expression, target: { context }, awaitPromise: true });
    assert.equal(answer.type, "success", JSON.stringify(answer));
    return answer.result.value;
  };
  const until = async (expression) => {
    for (let tries = 0; !(await evaluate(expression)); tries++) {
      assert.ok(tries < 200, expression);
      await new Promise((done) => setTimeout(done, 100));
    }
  };
  const press = (key) => ask("input.performActions", { context, actions: [{ type: "key", id: "keys", actions: [{ type: "keyDown", value: key }, { type: "keyUp", value: key }] }] });
  await until(`/thread/.test(document.querySelector("#status")?.textContent ?? "")`);
  // Bars of several colours in the lanes.
  await until(`(() => {
    const canvas = document.querySelector("canvas");
    const data = canvas.getContext("2d").getImageData(200, 100, 1000, 60).data;
    return new Set(Array.from({ length: data.length / 4 }, (_, at) => data.slice(at * 4, at * 4 + 3).join())).size > 4;
  })()`);
  const before = await evaluate("location.hash");
  await press("w");
  await press("m");
  await until(`location.hash !== ${JSON.stringify(before)} && location.hash.includes("mark=")`);
  await until(`document.querySelectorAll("#panel tbody tr[data-function]").length === 2`);
  await press("o");
  if (picture) {
    await new Promise((done) => setTimeout(done, 1000));
    writeFileSync(picture, Buffer.from((await ask("browsingContext.captureScreenshot", { context })).data, "base64"));
  }
  assert.deepEqual(bad, []);
  console.log("in Firefox: ok");
} finally {
  browser.kill();
}
process.exit(0);
