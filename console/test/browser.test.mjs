// The console in Chromium against a real node. e2e/console_test.go starts node and chain, and
// steers them: control("mine/5") makes blocks, control("kill") is kill -9.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { join } from "node:path";
import test, { after, before } from "node:test";
import { chromium } from "playwright-core";

const env = (name) => process.env[`FENCEPOST_TEST_${name}`] ?? assert.fail(`${name} is not set`);
const node = env("NODE");
const operator = env("OPERATOR");
const reader = env("READER");
const recipient = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed";
const limitMs = 60_000;

let browser;
let axe;

before(async () => {
  browser = await chromium.launch({
    executablePath: env("CHROMIUM"),
    args: ["--no-sandbox", "--disable-dev-shm-usage"],
  });
  axe = await readFile(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
});
after(() => browser.close());

async function control(step) {
  const got = await fetch(`${env("CONTROL")}/${step}`);
  assert.equal(got.status, 200, `${step}: ${await got.text()}`);
}

/** Calls the JSON API as the operator. */
async function api(method, path, body, token = operator) {
  const got = await fetch(`${node}/api/v1/${path}`, {
    method,
    headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
    ...(body ? { body: JSON.stringify(body) } : {}),
  });
  const answer = await got.json();
  assert.ok(got.ok, `${method} ${path}: ${JSON.stringify(answer)}`);
  return answer;
}

async function create(submitter, requestId, payload = {}, more = {}) {
  const { tx } = await api("POST", "tx", {
    submitter,
    requestId,
    payload: { to: recipient, value: "1", ...payload },
    ...more,
  });
  return tx.txId;
}

const getTx = async (id) => (await api("GET", `tx/${id}?view=TX_VIEW_OPERATOR`)).tx;
const getAccount = async (name) => (await api("GET", `submitters/${name}`)).submitter;

async function until(what, condition) {
  const deadline = Date.now() + limitMs;
  for (;;) {
    const value = await condition();
    if (value) {
      return value;
    }
    assert.ok(Date.now() < deadline, `not in time: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

const inState = (id, state) =>
  until(`${id} is ${state}`, async () => {
    const tx = await getTx(id);
    return tx.state === `TX_STATE_${state}` && tx;
  });

/** Makes blocks until the transaction is in a state. */
const minedTo = (id, state) =>
  until(`${id} is ${state}`, async () => {
    await control("mine/1");
    return (await getTx(id)).state === `TX_STATE_${state}`;
  });

/** Opens a page in a browser of its own. Errors and violations of the policy fail the test. */
async function open(t, hash, token, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(limitMs);
  const problems = [];
  page.on("pageerror", (error) => problems.push(String(error)));
  page.on("console", (message) => {
    // Chromium logs failed requests; tests that cause them look at the page.
    if (message.type() === "error" && !message.text().startsWith("Failed to load resource")) {
      problems.push(message.text());
    }
  });
  t.after(async () => {
    await context.close();
    assert.deepEqual(problems, []);
  });
  await page.goto(`${node}/console/${hash}`);
  if (token) {
    await signIn(page, token);
  }
  return page;
}

async function signIn(page, token) {
  await page.getByLabel("Token of a caller").fill(token);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("navigation", { name: "Pages", exact: true }).waitFor();
}

const shoot = (page, name, fullPage = true) =>
  page.screenshot({ path: join(env("SCREENSHOTS"), `${name}.png`), fullPage });

/** Fails on violations of the rules of accessibility. */
async function clean(page, name) {
  await page.evaluate(axe); // not as a script element, which the policy forbids
  const { violations } = await page.evaluate(() => globalThis.axe.run(document));
  const found = violations.map((v) => `${name}: ${v.id}: ${v.nodes[0]?.html}`);
  assert.deepEqual(found, []);
}

/** Chooses an action, checks that its dialog explains it, and confirms. */
async function decide(page, scope, label, { option = false, name } = {}) {
  await scope.getByRole("button", { name: label, exact: true }).click();
  const dialog = page.getByRole("dialog");
  await dialog.waitFor();
  if (name) {
    await clean(page, name);
    await shoot(page, name, false);
  }
  await dialog.getByLabel("Reason").fill(`a test of ${label}`);
  await dialog.getByLabel("Your name").fill("olga");
  if (option) {
    await dialog.getByRole("checkbox").check();
  }
  const confirm = dialog.getByRole("button", { name: `Confirm: ${label}` });
  const deadline = Date.now() + limitMs;
  await confirm.click();
  for (;;) {
    await until("the decision has a result", async () =>
      (await dialog.count()) === 0 || (await dialog.getByRole("alert").count()) > 0);
    if ((await dialog.count()) === 0) {
      return;
    }
    const alert = await dialog.getByRole("alert").innerText();
    assert.match(alert, /DECISION_REFUSED/);
    assert.ok(Date.now() < deadline, alert);
    await control("mine/2"); // the proof needs depth
    await confirm.click();
  }
}

const itemOf = (page, text) => page.getByRole("listitem").filter({ hasText: text });

test("a token signs in, and stays out of the address and of other tabs", async (t) => {
  const page = await open(t, "#/accounts");
  await page.getByText("This node requires a token.").waitFor();
  await clean(page, "login");
  await shoot(page, "login");
  await page.getByLabel("Token of a caller").fill("wrong-token-0123456789");
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByText("The node does not accept this token.").waitFor();
  await signIn(page, operator);
  await page.getByRole("heading", { name: "Accounts", level: 1 }).waitFor();
  const kept = await page.evaluate(() => JSON.stringify([location.href, { ...localStorage }]));
  assert.ok(!kept.includes(operator));
  await page.reload();
  await page.getByRole("heading", { name: "Accounts", level: 1 }).waitFor();
  const other = await page.context().newPage();
  await other.goto(page.url());
  await other.getByText("This node requires a token.").waitFor();
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByText("You signed out.").waitFor();
  assert.equal(await page.evaluate(() => sessionStorage.getItem("fencepost.token")), null);
});

test("every page is accessible, light and dark", async (t) => {
  const id = await create("s00", "page-tour", {}, { labels: { team: "payments" } });
  await minedTo(id, "CONFIRMED");
  const hash = (await getTx(id)).txHash;
  for (const colorScheme of ["light", "dark"]) {
    const page = await open(t, "", operator, { colorScheme });
    for (const [name, place, shows] of [
      ["decisions", "#/", "Protected accounts"],
      ["accounts", "#/accounts", "many-00001"],
      ["account", "#/accounts/s00", "page-tour"],
      ["transaction", `#/tx/${id}`, "INCLUDED"],
      ["search-id", `#/search?q=${id}`, "page-tour"],
      ["search-hash", `#/search?q=${hash}`, "page-tour"],
      ["search-label", "#/search?q=team%3Dpayments", "page-tour"],
      ["search-request", "#/search?q=page-tour&account=s00", "page-tour"],
      ["search-nothing", "#/search?q=nonsense", "not an id"],
      ["chains", "#/chains", "endpoint 1"],
      ["nodes", "#/nodes", "a/"],
      ["commands", "#/commands/s00", "Command log"],
    ]) {
      await page.evaluate((to) => (location.hash = to), place);
      await page.getByRole("main").getByText(shows).first().waitFor();
      await until(`${name} is loaded`, async () => !(await page.getByText("Loading…").count()));
      await clean(page, name);
      await shoot(page, `${name}-${colorScheme}`);
    }
    assert.ok(!(await page.content()).includes("127.0.0.1:"), "an address of an endpoint is shown");
  }
});

test("a transaction shows attempts, fees, receipt and labels", async (t) => {
  const id = await create("s00", "details", {}, { labels: { team: "details" } });
  await minedTo(id, "CONFIRMED");
  const page = await open(t, `#/tx/${id}`, operator);
  const main = page.getByRole("main");
  for (const text of ["team=details", "success", "gwei", "ORIGINAL", "21\u202f000"]) {
    await main.getByText(text).first().waitFor();
  }
  const kinds = await main.locator(".timeline strong").allInnerTexts();
  assert.deepEqual(kinds, ["QUEUED", "ALLOCATED", "SUBMITTED", "INCLUDED", "CONFIRMED"]);
});

test("text of clients is shown as text", async (t) => {
  const hostile = (n) => `<img src=x onerror="globalThis.attacked=${n}">`;
  const id = await create("s00", hostile(1), {}, { labels: { note: hostile(2) } });
  await minedTo(id, "CONFIRMED");
  const page = await open(t, `#/tx/${id}`, operator);
  const main = page.getByRole("main");
  await main.getByText(hostile(1)).first().waitFor();
  await main.getByText(hostile(2)).first().waitFor();
  for (const place of [
    "#/accounts/s00",
    `#/search?q=${encodeURIComponent(hostile(1))}&account=s00`,
    `#/accounts/${encodeURIComponent(hostile(3))}`,
    `#/tx/${encodeURIComponent(hostile(4))}`,
    `#/commands/${encodeURIComponent(hostile(5))}`,
    `#/${encodeURIComponent(hostile(6))}`,
  ]) {
    await page.evaluate((to) => (location.hash = to), place);
    await main.getByRole("heading", { level: 1 }).waitFor();
    await until(`${place} is loaded`, async () => !(await page.getByText("Loading…").count()));
    assert.equal(await page.locator("img").count(), 0, place);
  }
  assert.equal(await page.evaluate(() => globalThis.attacked), undefined);
  // The policy stops code even where the page would insert it.
  const other = await page.context().newPage();
  await other.goto(`${node}/console/`);
  const blocked = await other.evaluate((html) => {
    try {
      document.body.insertAdjacentHTML("beforeend", html);
      return false;
    } catch {
      return true;
    }
  }, hostile(7));
  assert.equal(blocked, true);
  assert.equal(await other.evaluate(() => globalThis.attacked), undefined);
});

test("the keyboard reaches everything", async (t) => {
  const id = await create("s01", "keyboard");
  await inState(id, "STUCK");
  const page = await open(t, "#/", operator);
  await itemOf(page, "keyboard").waitFor();
  await page.keyboard.press("Tab");
  assert.equal(await focused(page), "Skip to the content");
  await page.keyboard.press("Enter");
  assert.equal(await page.evaluate(() => document.activeElement.id), "main");
  const reached = [];
  while (!reached.includes("Cancel") && reached.length < 30) {
    await page.keyboard.press("Tab");
    reached.push(await focused(page));
  }
  assert.ok(reached.includes("Retry") && reached.includes("Cancel"), reached.join());
  await page.keyboard.press("Enter");
  await page.getByRole("dialog").waitFor();
  await page.keyboard.press("Escape");
  await page.getByRole("dialog").waitFor({ state: "detached" });
  assert.equal((await getTx(id)).cancelRequested, false, "closing a dialog did something");
  await minedTo(id, "CONFIRMED");
});

const focused = (page) => page.evaluate(() => document.activeElement.textContent);

test("transactions above a limit: approve, deny", async (t) => {
  const page = await open(t, "#/", operator);
  const ask = (requestId) =>
    api("POST", "tx", { submitter: "s01", requestId, payload: { to: recipient, value: "2000" } },
      reader);
  const approved = (await ask("large-approved")).tx.txId;
  const denied = (await ask("large-denied")).tx.txId;
  await itemOf(page, "large-approved").waitFor();
  await itemOf(page, "large-denied").waitFor();
  await shoot(page, "decisions-approvals");
  await clean(page, "decisions-approvals");
  await decide(page, itemOf(page, "large-approved"), "Approve");
  await decide(page, itemOf(page, "large-denied"), "Deny");
  await itemOf(page, "large-denied").waitFor({ state: "detached" });
  assert.equal((await getTx(denied)).reason, "APPROVAL_DENIED");
  await minedTo(approved, "CONFIRMED");
  assert.equal((await logOf("s01"))[0].caller, "oscar");
});

test("stuck transactions: retry, replace, cancel", async (t) => {
  const page = await open(t, "#/", operator);
  const ids = {};
  for (const [submitter, request] of [["s02", "retry"], ["s03", "bump"], ["s04", "cancel"]]) {
    ids[request] = await create(submitter, `stuck-${request}`);
  }
  // They appear without a reload.
  await itemOf(page, "stuck-retry").getByText("RESUBMIT_ATTEMPTS_EXHAUSTED").first().waitFor();
  await itemOf(page, "stuck-bump").waitFor();
  await itemOf(page, "stuck-cancel").waitFor();
  await shoot(page, "decisions-stuck");
  await clean(page, "decisions-stuck");
  await decide(page, itemOf(page, "stuck-retry"), "Retry", { name: "dialog" });
  assert.equal((await logOf("s02"))[0].operator, "olga");
  assert.equal((await logOf("s02"))[0].caller, "oscar");
  await decide(page, itemOf(page, "stuck-bump"), "Replace with higher fees");
  assert.equal((await getTx(ids.bump)).operator.attempts.length, 2);
  await decide(page, itemOf(page, "stuck-cancel"), "Cancel");
  assert.equal((await getTx(ids.cancel)).cancelRequested, true);
  await minedTo(ids.cancel, "CANCELLED");
  await minedTo(ids.bump, "CONFIRMED");
  await minedTo(ids.retry, "CONFIRMED");
  for (const request of Object.keys(ids)) {
    await itemOf(page, `stuck-${request}`).waitFor({ state: "detached" });
  }
});

const logOf = async (name) => (await api("GET", `submitters/${name}/commands`)).commands;

test("a nonce used elsewhere: fail, requeue, lift", async (t) => {
  const page = await open(t, "#/", operator);
  const cases = {
    s05: ["Fail", false, "FAIL"],
    s06: ["Requeue", true, "REQUEUE_UNPROVEN"],
    s12: ["Fail", true, "FAIL_UNPROVEN"],
    s13: ["Requeue", false, "REQUEUE"],
  };
  const ids = {};
  for (const name of Object.keys(cases)) {
    ids[name] = await create(name, `elsewhere-${name}`);
    await inState(ids[name], "STUCK");
  }
  await control("drop");
  for (const name of Object.keys(cases)) {
    await control(`spend/${Number(name.slice(1))}/0`);
  }
  await control("mine/1");
  await until("all are protected", async () => {
    await control("mine/1");
    const accounts = await Promise.all(Object.keys(cases).map(getAccount));
    return accounts.every((a) => a.protection?.reason === "NONCE_USED_ELSEWHERE");
  });
  const accounts = page.getByRole("region", { name: "Protected accounts" });
  for (const [name, [label, option, action]] of Object.entries(cases)) {
    await accounts.getByRole("link", { name, exact: true }).waitFor();
    await itemOf(page, `elsewhere-${name}`).getByText("NONCE_USED_ELSEWHERE").first().waitFor();
    if (name === "s05") {
      await shoot(page, "decisions-protected");
      await clean(page, "decisions-protected");
    }
    await decide(page, itemOf(page, `elsewhere-${name}`), label, { option });
    const item = accounts.getByRole("listitem").filter({ has: page.getByRole("link", { name }) });
    await decide(page, item, "Lift: continue at the cursor");
    await until("the protection is lifted", async () => !(await getAccount(name)).protection);
    assert.equal((await logOf(name)).find((one) => one.kind === "RESOLVE").action, action);
  }
  for (const [name, [label]] of Object.entries(cases)) {
    if (label === "Fail") {
      assert.equal((await getTx(ids[name])).state, "TX_STATE_FAILED_FINAL");
    } else {
      await minedTo(ids[name], "CONFIRMED");
      assert.equal((await getTx(ids[name])).operator.nonce, "1");
    }
  }
  await accounts.getByText("None.").waitFor();
});

test("a protection by an operator: protect, align forward", async (t) => {
  const first = await create("s07", "before-protection");
  await minedTo(first, "CONFIRMED");
  const page = await open(t, "#/accounts/s07", operator);
  const main = page.getByRole("main");
  await decide(page, main, "Protect account", { name: "dialog-protect" });
  await main.getByText("PROTECTED", { exact: true }).waitFor();
  await main.getByText("a test of Protect account").first().waitFor(); // the evidence
  await control("spend/7/1");
  await control("mine/1");
  await decide(page, main, "Lift: align forward");
  await main.getByText("Skipped nonces: 1–1").waitFor();
  const next = await create("s07", "after-protection");
  await minedTo(next, "CONFIRMED");
  assert.equal((await getTx(next)).operator.nonce, "2");
  for (const [label, action] of [
    ["Lift: continue at the cursor", "RESUME_KEEP_QUEUE"],
    ["Lift: align forward", "ALIGN_FORWARD_KEEP_QUEUE"],
  ]) {
    await decide(page, main, "Protect account");
    await decide(page, main, label, { option: true });
    await main.getByText("ACTIVE", { exact: true }).waitFor();
    assert.equal((await logOf("s07"))[0].action, action);
  }
});

test("pause and resume, on both pages", async (t) => {
  const page = await open(t, "#/accounts/s08", operator);
  const main = page.getByRole("main");
  await decide(page, main, "Pause account");
  await main.getByText("PAUSED", { exact: true }).waitFor();
  await page.getByRole("link", { name: "Needs a decision" }).click();
  const paused = page.getByRole("region", { name: "Paused accounts" });
  await paused.getByText("a test of Pause account").waitFor();
  await clean(page, "decisions-paused");
  await shoot(page, "decisions-paused");
  await decide(page, paused, "Resume account");
  await paused.getByText("None.").waitFor();
  assert.equal((await getAccount("s08")).status, "SUBMITTER_STATUS_ACTIVE");
  await page.getByRole("link", { name: "Command log" }).click();
  await page.getByRole("row").filter({ hasText: "a test of Resume account" }).waitFor();
  await page.getByRole("textbox", { name: /^Account/ }).fill("s08");
  await page.getByRole("button", { name: "Show" }).click();
  await page.getByText("a test of Resume account").waitFor();
});

test("Escape does not hide a decision that is under way", async (t) => {
  const page = await open(t, "#/accounts/s08", operator);
  const main = page.getByRole("main");
  let release;
  const held = new Promise((resolve) => (release = resolve));
  await page.route("**/PauseSubmitter", async (route) => {
    await held;
    await route.continue();
  });
  await main.getByRole("button", { name: "Pause account", exact: true }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Reason").fill("a slow owner");
  await dialog.getByLabel("Your name").fill("olga");
  await dialog.getByRole("button", { name: "Confirm: Pause account" }).click();
  await dialog.getByText("Waiting for the owner…").waitFor();
  for (let i = 0; i < 4; i++) {
    await page.keyboard.press("Escape");
    await dialog.waitFor();
  }
  release();
  await dialog.waitFor({ state: "detached" });
  await main.getByText("Done: Pause account.").waitFor();
  await decide(page, main, "Resume account");
  await main.getByText("ACTIVE", { exact: true }).waitFor();
});

test("a page of another version says what to do", async (t) => {
  const context = await browser.newContext();
  t.after(() => context.close());
  const page = await context.newPage();
  page.setDefaultTimeout(limitMs);
  await page.route("**/console/", async (route) => {
    const response = await route.fetch();
    const body = (await response.text()).replace(/main-\w+\.js/, "main-OLDER.js");
    await route.fulfill({ response, body });
  });
  await page.goto(`${node}/console/`);
  await page.getByRole("alert").getByText("Reload the page.").waitFor();
  await clean(page, "other-version");
  await shoot(page, "other-version");
});

test("a transaction in flight is sped up, and a queued one cancelled", async (t) => {
  const page = await open(t, "#/accounts/s09", operator);
  const flying = await create("s09", "in-flight");
  const queued = await create("s09", "in-queue");
  await inState(flying, "TRACKING");
  await page.evaluate((to) => (location.hash = to), `#/tx/${flying}`);
  // On a busy machine it is STUCK first; a retry makes it one in flight again.
  const button = page.getByRole("button", { name: "Speed up", exact: true });
  await until("it can be sped up", async () => {
    const found = await button.waitFor({ timeout: 2000 }).then(() => true, () => false);
    if (!found && (await getTx(flying)).state === "TX_STATE_STUCK") {
      await api("POST", `tx/${flying}/resolve`, {
        decision: "STUCK_DECISION_RETRY",
        reason: "a test",
      });
    }
    return found;
  });
  await decide(page, page.getByRole("main"), "Speed up");
  assert.equal((await getTx(flying)).operator.attempts.length, 2);
  await page.getByText("BUMP", { exact: true }).waitFor();
  await page.evaluate((to) => (location.hash = to), `#/tx/${queued}`);
  await page.getByText("in-queue").first().waitFor();
  await decide(page, page.getByRole("main"), "Cancel transaction");
  await page.getByText("CANCELLED_BY_CALLER").first().waitFor();
  await minedTo(flying, "CONFIRMED");
});

test("an account without funds names what is missing", async (t) => {
  const id = await create("s10", "too-expensive", { value: `2${"0".repeat(22)}` });
  const page = await open(t, "#/", operator);
  const item = page.getByRole("region", { name: "Accounts without funds" }).getByRole("listitem");
  await item.getByText("too-expensive").waitFor();
  await item.getByText("The account cannot afford it.").waitFor();
  await item.getByText("eip155:31337:").waitFor();
  await clean(page, "decisions-unfunded");
  await shoot(page, "decisions-unfunded");
  await api("POST", `tx/${id}/cancel`, { reason: "a test" });
  await item.waitFor({ state: "detached" });
});

test("nonces of clients: fill, never signed", async (t) => {
  const hostile = "</li><script>globalThis.attacked=1</script>";
  const nonceOf = async (n) => (await api("GET", `submitters/s14/nonces/${n}`)).nonce;
  for (const n of ["0", "1"]) {
    const { nonce } = await api("POST", "submitters/s14/nonces", {
      requestId: `nonce-${n}`,
      holder: `${hostile} ${n}`,
    });
    assert.equal(nonce.nonce, n);
    await api("POST", `reservations/${nonce.reservationId}/quarantine`, { reason: hostile });
  }
  const page = await open(t, "#/", operator);
  const section = page.getByRole("region", { name: "Nonces of clients" });
  const item = (n) => section.locator(".inner > li").filter({ hasText: `Nonce ${n}:` });
  await item(0).getByText(`${hostile} 0`).waitFor();
  await item(1).getByText(hostile, { exact: true }).waitFor(); // the evidence
  assert.equal(await page.evaluate(() => globalThis.attacked), undefined);
  await clean(page, "decisions-nonces");
  await shoot(page, "decisions-nonces");
  await decide(page, item(0), "Fill", { name: "dialog-fill" });
  await until("the nonce is filled", async () => {
    await control("mine/1");
    return (await nonceOf(0)).state === "NONCE_STATE_ACCEPTED";
  });
  await decide(page, item(1), "Never signed");
  await section.getByText("None.").waitFor();
  assert.equal((await nonceOf(1)).state, "NONCE_STATE_RECYCLABLE");
});

test("dead deliveries: deliver again, skip, deliver all, resume", async (t) => {
  await control("hook/refuse");
  const page = await open(t, "#/", operator);
  const section = page.getByRole("region", { name: "Undelivered events" });
  const dead = (n) => section.locator(".inner > li").nth(n - 1).waitFor();
  const labels = { sink: "console" };
  const queued = [];
  for (const n of [1, 2, 3]) {
    queued.push(await create("s02", `undelivered-${n}`, {}, { labels }));
  }
  await dead(3);
  await clean(page, "decisions-undelivered");
  await shoot(page, "decisions-undelivered");
  const item = (id) => section.locator(".inner > li").filter({
    has: page.locator(`a[href="#/tx/${id}"]`),
  });
  await decide(page, item(queued[0]), "Skip event");
  await control("hook/accept");
  await decide(page, item(queued[1]), "Deliver again");
  await item(queued[1]).waitFor({ state: "detached" });
  await decide(page, section, "Deliver all again");
  await section.getByText("None.").waitFor();
  await api("POST", "sinks/hook/pause", { reason: "a test" });
  await decide(page, section, "Resume sink");
  await section.getByText("None.").waitFor();
  await page.getByRole("link", { name: "Command log" }).click();
  for (const label of ["Skip event", "Deliver again", "Deliver all again", "Resume sink"]) {
    const row = page.getByRole("row").filter({ hasText: `a test of ${label}` });
    await row.getByText("olga").waitFor();
  }
  for (const id of queued) {
    await minedTo(id, "CONFIRMED");
  }
});

test("a caller without the role sees its accounts, and why buttons are disabled", async (t) => {
  const id = await create("s01", "of-rita");
  await inState(id, "STUCK");
  const other = await create("s04", "of-another");
  await inState(other, "STUCK");
  const page = await open(t, "#/", reader);
  const item = itemOf(page, "of-rita");
  await item.waitFor();
  assert.equal(await page.getByText("of-another").count(), 0);
  assert.equal(await item.getByRole("button", { name: "Retry" }).isDisabled(), true);
  await item.getByText("Caller “rita” does not have it; ask an operator.").waitFor();
  await clean(page, "reader");
  await shoot(page, "reader");
  for (const place of ["#/chains", "#/nodes"]) {
    await page.evaluate((to) => (location.hash = to), place);
    await page.getByText("This is shown to callers with the role operator.").waitFor();
  }
  await page.evaluate(() => (location.hash = "#/accounts/s04"));
  await page.getByText("PERMISSION_DENIED").first().waitFor();
  await minedTo(id, "CONFIRMED");
  await minedTo(other, "CONFIRMED");
});

test("10,000 accounts are paged", async (t) => {
  const page = await open(t, "#/accounts", operator);
  const rows = page.locator("tbody tr");
  await page.getByRole("link", { name: "many-00001" }).waitFor();
  const next = page.getByRole("button", { name: "Next page" });
  for (let start = 51; start <= 501; start += 50) {
    const begin = Date.now();
    await next.click();
    const name = `many-${String(start).padStart(5, "0")}`;
    await page.getByRole("link", { name }).waitFor();
    assert.equal(await rows.count(), 50);
    assert.ok(Date.now() - begin < 10_000, `a page took ${Date.now() - begin} ms`);
  }
  assert.ok((await page.locator("*").count()) < 2000);
  await shoot(page, "accounts-many");
  await page.getByRole("button", { name: "Previous page" }).click();
  await page.getByRole("link", { name: "many-00451" }).waitFor();
  await page.getByRole("button", { name: "First page" }).click();
  await page.getByRole("link", { name: "many-00001" }).waitFor();
  await page.evaluate(() => (location.hash = "#/nodes"));
  await page.getByText("10015").waitFor();
});

test("a killed node: the page continues without a reload", async (t) => {
  const id = await create("s11", "survives");
  await inState(id, "STUCK");
  const page = await open(t, `#/tx/${id}`, operator);
  await page.getByText("Live: every event appears").waitFor();
  await page.evaluate(() => (globalThis.sameDocument = true));
  await control("kill");
  await page.getByText("Not live: connecting again.").waitFor();
  await page.getByText("Not up to date").waitFor();
  await clean(page, "killed");
  await shoot(page, "killed");
  await control("start");
  await control("mine/1");
  await page.getByText("Live: every event appears").waitFor();
  await minedTo(id, "CONFIRMED");
  await page.locator(".timeline").getByText("CONFIRMED").first().waitFor();
  await page.getByText("Not up to date").waitFor({ state: "detached" });
  const seqs = await page.locator(".timeline li").evaluateAll((all) => all.map((li) => li.value));
  assert.deepEqual(seqs, seqs.map((_, i) => i + 1), "an event is missing or repeated");
  assert.equal(seqs.length, Number((await getTx(id)).version));
  assert.equal(await page.evaluate(() => globalThis.sameDocument), true);
});

test("an expired token leads to the login, and back to the same page", async (t) => {
  const page = await open(t, "#/accounts/s00", operator);
  await page.getByRole("heading", { name: "Account s00" }).waitFor();
  const current = "rotated-token-0123456789";
  await control(`token/${current}`);
  await page.getByText("The token is no longer accepted.").waitFor();
  await clean(page, "expired");
  await shoot(page, "expired");
  await signIn(page, current);
  await page.getByRole("heading", { name: "Account s00" }).waitFor();
  await control(`token/${operator}`);
  await until("the token is back", async () => {
    const got = await fetch(`${node}/api/v1/status`, {
      headers: { authorization: `Bearer ${operator}` },
    });
    return got.ok;
  });
});
