// The banners: what ended a trace, and what has become of the server and of the file.
import { execFileSync } from "node:child_process";
import { strict as assert } from "node:assert";
import { copyFileSync, renameSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { fragment, panel, settled } from "./helpers.mjs";

const told = (page) => page.$$eval(".banners li", (all) => all.map((item) => item.textContent));
/** Until a banner says that. */
const says = (page, words) => page.waitForFunction((words) => [...document.querySelectorAll(".banners li")].some((item) => item.textContent.includes(words)), words);

export async function banners({ served, open, fdr, folder, ended }) {
  const own = join(folder, "ends.fdr");
  copyFileSync(ended, own);
  await served(own, async (url, server) => {
    const { page, bad, context } = await open(url);
    const words = `A panic in worker-1 (thread 8) at src/main.rs:7:5: <b>index</b> out of bounds. show its last call What all threads were in: fdr state ${own}`;
    assert.deepEqual(await told(page), [words]);
    // With keys alone: the innermost call of the thread's last record.
    await page.focus(".banners button");
    await page.keyboard.press("Enter");
    await settled(page);
    assert.match(await panel(page), /app::run.*worker-1 \(thread 8\)/s);
    assert.match(await fragment(page), /call=0,\d+,0,/);
    const copy = join(folder, "copy.fdr");
    copyFileSync(ended, copy);
    renameSync(copy, own);
    await says(page, `To see the new one, type fdr view ${own}`);
    server.kill();
    await says(page, `The server is gone: what the page has not read yet can't be read any more. To open the page again, type fdr view ${own}`);
    assert.equal((await told(page)).length, 2);
    // A request to the server that is gone may fail.
    assert.deepEqual(bad.filter((text) => !text.includes("ERR_")), []);
    await context.close();
  });
  const file = join(folder, "ends.html");
  execFileSync(fdr, ["view", "-o", file, own], { stdio: "ignore" });
  const { page, context } = await open(pathToFileURL(file).href);
  assert.deepEqual(await told(page), ["A panic in worker-1 (thread 8). show its last call What all threads were in: fdr state ends.fdr"]);
  await context.close();
}
