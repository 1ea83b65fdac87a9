// Bundles the console into server/console/dist, which the Go program embeds.
import { build } from "esbuild";
import { readdir, readFile, rm, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";

const here = dirname(fileURLToPath(import.meta.url));
const out = join(here, "../server/console/dist");
const placeholder = "placeholder.html"; // of programs without the console; git tracks it
const budget = 200_000; // bytes of scripts, styles and page, compressed

for (const name of await readdir(out)) {
  if (name !== placeholder) {
    await rm(join(out, name));
  }
}
const result = await build({
  absWorkingDir: here,
  entryPoints: { main: "src/main.tsx" },
  bundle: true,
  format: "esm",
  target: "es2022",
  minify: true,
  jsx: "automatic",
  define: { "process.env.NODE_ENV": '"production"' },
  legalComments: "none", // the texts are in licenses.txt
  entryNames: "[name]-[hash]",
  outdir: out,
  metafile: true,
  logLevel: "warning",
});
const names = (await readdir(out)).filter((name) => name !== placeholder);
const only = (ending) => names.find((name) => name.endsWith(ending));
const page = (await readFile(join(here, "src/index.html"), "utf8"))
  .replace("MAIN.js", only(".js"))
  .replace("MAIN.css", only(".css"));
await writeFile(join(out, "index.html"), page);
await writeFile(join(out, "icon.svg"), await readFile(join(here, "src/icon.svg")));
await writeFile(join(out, "licenses.txt"), await licenses(Object.keys(result.metafile.inputs)));

let bytes = 0;
for (const name of [...names, "index.html"]) {
  bytes += gzipSync(await readFile(join(out, name)), { level: 9 }).length;
}
console.log(`console: ${bytes} bytes compressed`);
if (bytes > budget) {
  console.error(`console: above the budget of ${budget} bytes`);
  process.exit(1);
}

/** The licenses of all packages that the bundle contains. */
async function licenses(inputs) {
  const packages = new Set();
  for (const input of inputs) {
    const found = /node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(input);
    if (found) {
      packages.add(found[1]);
    }
  }
  const require = createRequire(import.meta.url);
  const texts = [];
  for (const name of [...packages].sort()) {
    const folder = join(here, "../node_modules", name);
    const about = require(join(folder, "package.json"));
    const file = (await readdir(folder)).find((one) => /^licen[sc]e/i.test(one));
    if (!file && !about.license.includes("Apache-2.0")) {
      throw new Error(`${name} has no license text`);
    }
    const text = await readFile(file ? join(folder, file) : join(here, "../LICENSE"), "utf8");
    texts.push(`${name} ${about.version}\n\n${text}`);
  }
  return texts.join("\n----\n\n");
}
