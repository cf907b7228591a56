// Makes dist/page.html of src/: one file, whose policy names the sums of its script and its style. With --check it
// compares with the file that is there, and writes nothing.
import { build } from "esbuild";
import { createHash } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";

const check = process.argv.includes("--check");
const output = process.argv.at(-1);
const bundled = async (entry) => {
  const options = { bundle: true, minify: true, charset: "utf8", target: "es2022", legalComments: "none", write: false };
  const result = await build({ ...options, entryPoints: [entry], format: "iife", logLevel: "warning" });
  return result.outputFiles[0].text.trim();
};
const sum = (text) => `sha256-${createHash("sha256").update(text).digest("base64")}`;
const script = await bundled("src/main.ts");
const style = await bundled("src/page.css");
if (script.toLowerCase().includes("</script") || style.toLowerCase().includes("</style")) {
  throw new Error("the bundle would end its own element");
}
// Functions: a `$` in the texts means nothing.
const page = readFileSync("src/page.html", "utf8")
  .replace("{{script-sum}}", () => sum(script))
  .replace("{{style-sum}}", () => sum(style))
  .replace("{{style}}", () => style)
  .replace("{{script}}", () => script);
if (!check) {
  writeFileSync(output, page);
} else if (readFileSync(output, "utf8") !== page) {
  console.error(`${output} is not what src/ makes: run "npm ci && npm run build" in cli/page, and commit it`);
  process.exit(1);
}
