// The console's own decisions, without a browser.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import test from "node:test";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));

async function load(name) {
  const { outputFiles } = await build({
    entryPoints: [join(here, "../src", name)],
    bundle: true,
    format: "esm",
    platform: "node",
    write: false,
  });
  const code = Buffer.from(outputFiles[0].contents).toString("base64");
  return import(`data:text/javascript;base64,${code}`);
}

/** Renders a component of a module with properties, as a server would. */
async function render(name, component, props) {
  const code = `
    import { createElement } from "react";
    import { renderToStaticMarkup } from "react-dom/server.edge";
    import { ${component} } from "./${name}";
    export default (props) => renderToStaticMarkup(createElement(${component}, props));`;
  const { outputFiles } = await build({
    stdin: { contents: code, resolveDir: join(here, "../src"), loader: "js" },
    bundle: true,
    format: "esm",
    platform: "node",
    jsx: "automatic",
    banner: { js: 'import { createRequire } from "node:module";' +
      `const require = createRequire(${JSON.stringify(import.meta.url)});` },
    write: false,
  });
  const bundle = Buffer.from(outputFiles[0].contents).toString("base64");
  const { default: html } = await import(`data:text/javascript;base64,${bundle}`);
  return html(props).replaceAll("<!-- -->", "");
}

const loaded = (data) =>
  render("parts.tsx", "Loaded", {
    live: { data, error: undefined },
    what: "Reading",
    children: () => "rows",
  });

test("data that lacks ledgers names them", async () => {
  assert.equal(await loaded({ missingLedgers: [] }), "rows");
  assert.equal(await loaded({}), "rows");
  assert.match(await loaded({ missingLedgers: ["us1"] }),
    /role="status">Incomplete: ledger <strong>us1<\/strong> does not respond\.<\/p>rows$/);
  assert.match(await loaded({ missingLedgers: ["eu2", "us1"] }),
    /ledgers <strong>eu2, us1<\/strong> do not respond/);
});

test("an account shows its top-ups, and why it gets none", async () => {
  const sent = {
    txId: "01a21fca-9bb7-8000-8000-058ead4b4abd",
    submitter: "treasury",
    state: 5,
    subState: 0,
    reason: "",
    payload: { value: "1500000000000000000" },
    operator: { caller: "@top-up" },
  };
  const topUps = (txs, balance) =>
    render("pages/topups.tsx", "TopUps", { name: "a", txs, balance });
  assert.equal(await topUps([], undefined), "");
  // A client may use the label, but is no rule.
  assert.equal(await topUps([{ ...sent, operator: { caller: "shop" } }], { topUpHeld: "" }), "");
  const html = await topUps([sent], { topUpHeld: "DAY_LIMIT" });
  for (const part of [">1.5 ether<", "#/accounts/treasury", sent.txId, ">CONFIRMED<",
    "<strong>DAY_LIMIT</strong>): The top-ups of the last 24 hours reach max_per_day."]) {
    assert.ok(html.includes(part), `${part} is missing in ${html}`);
  }
  const decided = await topUps([], {
    topUpHeld: "",
    topUp: { txId: "", treasury: "treasury", amount: "1", time: { seconds: 0n, nanos: 0 } },
  });
  assert.match(decided, /Decided, without a transaction yet: 0\.000000000000000001 ether from/);
});

test("amounts keep every digit", async () => {
  const { units, duration } = await load("format.ts");
  assert.equal(units("0", 18), "0");
  assert.equal(units("1", 18), "0.000000000000000001");
  assert.equal(units("1500000000000000000", 18), "1.5");
  assert.equal(units("123456789000000000000000000", 18), "123\u202f456\u202f789");
  assert.equal(units("", 18), "");
  assert.equal(duration(0), "0 s");
  assert.equal(duration(-5), "0 s");
  assert.equal(duration(59_400), "59 s");
  assert.equal(duration(60_000), "1 min");
  assert.equal(duration(3_660_000), "1 h 1 min");
  assert.equal(duration(90_000_000), "1 d 1 h");
});

test("a search is recognized by its form", async () => {
  const { queryOf } = await load("find.ts");
  const id = "01a21fca-9bb7-8000-8000-058ead4b4abd";
  const hash = "ab".repeat(32);
  assert.deepEqual(queryOf(` ${id.toUpperCase()} `, ""), { kind: "id", id });
  assert.deepEqual(queryOf(hash, ""), { kind: "hash", hash: `0x${hash}` });
  assert.deepEqual(queryOf(`0x${hash}`, ""), { kind: "hash", hash: `0x${hash}` });
  assert.deepEqual(queryOf("team=payments", ""), { kind: "label", label: "team=payments" });
  assert.deepEqual(queryOf(id, "alice"), { kind: "request", submitter: "alice", requestId: id });
  assert.equal(queryOf("invoice 7", "").kind, "invalid");
  assert.equal(queryOf("", "alice").kind, "invalid");
});

test("an address of the console names its page", async () => {
  const { parseRoute, hrefOf } = await load("router.ts");
  assert.equal(parseRoute("").page, "");
  assert.equal(parseRoute("#/accounts/eip155%3A1%3A0xab").name, "eip155:1:0xab");
  assert.equal(parseRoute("#/accounts/%E0%A4%A").name, "%E0%A4%A");
  const href = hrefOf("search", "", { q: "a=b&c#d", account: "" });
  assert.equal(parseRoute(href).query.get("q"), "a=b&c#d");
});

// Every reason in the tables of these documents has a meaning in the console.
test("every documented reason has a meaning", async () => {
  const words = await load("words.ts");
  const read = (name) => readFile(join(here, "../../docs", name), "utf8");
  const text = (await read("operations.md")) + (await read("balances.md"));
  const tables = {
    "| reason | remedy |": words.topUpHolds,
    "| reason | meaning | what to do |": words.waits,
    "| reason | state, executed | meaning |": words.outcomes,
    "| reason | evidence | before you decide |": words.protections,
  };
  // The last response to a broadcast has a meaning in common.
  const broadcasts = /NONCE_TOO_LOW/;
  for (const [head, meanings] of Object.entries(tables)) {
    const rows = text.slice(text.indexOf(head)).split("\n\n", 1)[0].split("\n").slice(2);
    assert.ok(rows.length > 3, head);
    for (const row of rows) {
      const cell = row.split("|")[1];
      if (broadcasts.test(cell)) {
        continue;
      }
      for (const reason of cell.replace(/\(.*\)/, "").match(/[A-Z][A-Z_]+[A-Z]/g)) {
        assert.ok(reason in meanings, `${reason} of “${head}” has no meaning`);
      }
    }
  }
});
