import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import process from "node:process";
import { test } from "node:test";
import { setTimeout } from "node:timers/promises";
import { ConnectError } from "@connectrpc/connect";
import {
  Client,
  Code,
  connect,
  ErrorReason,
  Executed,
  FencepostError,
  TxState,
} from "@fencepost/client";

/**
 * Returns an address or value that `make clients-test` provides: of a real node, or of the scripted
 * server (e2e/clients_scripted_test.go).
 *
 * @param {string} name
 */
function setting(name) {
  const value = process.env[`FENCEPOST_TEST_${name}`];
  assert.ok(value, `FENCEPOST_TEST_${name} is not set: run make clients-test`);
  return value;
}

/**
 * Returns a client that is closed when the test ends.
 *
 * @param {import("node:test").TestContext} t
 * @param {string} target
 * @param {import("@fencepost/client").ConnectOptions} [options]
 */
function open(t, target, options) {
  const client = connect(target, options);
  t.after(() => client.close());
  return client;
}

/**
 * @param {Client} client
 * @param {string} key
 */
async function create(client, key) {
  const { tx } = await client.txs.createTx({
    submitter: "alice",
    requestId: `ts/${key}`,
    payload: {},
  });
  assert.ok(tx);
  return tx;
}

/**
 * Returns how often a request reached the node.
 *
 * @param {Client} client
 * @param {string} key
 */
async function calls(client, key) {
  const { tx } = await client.txs.getTx({
    key: { case: "request", value: { submitter: "alice", requestId: `ts/${key}` } },
  });
  return tx?.version;
}

/**
 * Returns the error of a failed call.
 *
 * @param {Promise<unknown>} call
 */
async function failure(call) {
  const reason = await call.then(
    () => undefined,
    (/** @type {unknown} */ thrown) => thrown,
  );
  assert.ok(reason instanceof FencepostError, `not a FencepostError: ${reason}`);
  return reason;
}

test("call: unavailable node, retried", async (t) => {
  const client = open(t, setting("SCRIPTED"));
  for (const key of ["flaky", "busy"]) {
    assert.equal((await create(client, key)).version, "3", key);
  }
});

test("call: typed errors", async (t) => {
  const client = open(t, setting("SCRIPTED"));
  const nothing = {
    reason: ErrorReason.UNSPECIFIED,
    reasonName: "",
    requestId: "",
    retryAfterMs: 0,
    violations: [],
  };
  const wanted = {
    full: { ...nothing, code: Code.ResourceExhausted },
    wrong: {
      ...nothing,
      code: Code.InvalidArgument,
      reason: ErrorReason.INVALID_FIELD,
      reasonName: "INVALID_FIELD",
      violations: [{ field: "payload.to", description: "must be an address" }],
    },
    defect: {
      ...nothing,
      code: Code.Internal,
      reason: ErrorReason.INTERNAL,
      reasonName: "INTERNAL",
      requestId: "call-1",
    },
    novel: {
      ...nothing,
      code: Code.FailedPrecondition,
      reasonName: "NOT_INVENTED_YET",
      retryAfterMs: 1500,
    },
  };
  for (const [key, want] of Object.entries(wanted)) {
    const error = await failure(create(client, key));
    const { code, reason, reasonName, requestId, retryAfterMs, violations } = error;
    assert.deepEqual({ code, reason, reasonName, requestId, retryAfterMs, violations }, want, key);
    assert.match(error.message, /scripted/);
    assert.equal(await calls(client, key), "1", `${key} was retried`);
  }
});

test("call: timeout", async (t) => {
  const error = await failure(create(open(t, setting("SCRIPTED"), { timeoutMs: 200 }), "slow"));
  assert.equal(error.code, Code.DeadlineExceeded);
});

test("call: ended by the node at its deadline", async () => {
  const resets = {
    unary: () =>
      Promise.reject(
        new ConnectError("http/2 stream closed with error code CANCEL (0x8)", Code.Canceled),
      ),
    stream: () => Promise.reject(new Error("none is made")),
  };
  for (const [timeoutMs, code] of /** @type {[number, Code][]} */ ([
    [1, Code.DeadlineExceeded],
    [60_000, Code.Canceled],
  ])) {
    const error = await failure(new Client(resets, { timeoutMs }).txs.cancelTx({ txId: "t" }));
    assert.equal(error.code, code);
  }
});

test("call: unreachable node", async (t) => {
  const error = await failure(create(open(t, "127.0.0.1:1", { timeoutMs: 300 }), "nobody"));
  assert.equal(error.code, Code.Unavailable);
});

test("connect: TLS and token", async (t) => {
  const read = (/** @type {string} */ name) => readFileSync(`${setting("CERTS")}/${name}`);
  const tls = {
    ca: read("ca.pem"),
    certificate: read("client.pem"),
    key: read("client-key.pem"),
    serverName: "node.test",
  };
  const tx = await create(open(t, setting("TLS"), { tls, token: "secret" }), "whoami");
  assert.deepEqual([tx.lastError, tx.reason], ["Bearer secret", "caller"]);
  const { ca, serverName } = tls;
  for (const bad of [
    { ...tls, serverName: "other.test" },
    { ca, serverName },
    { ...tls, ca: tls.certificate },
  ]) {
    const error = await failure(
      create(open(t, setting("TLS"), { tls: bad, timeoutMs: 1000 }), "whoami"),
    );
    assert.ok(
      [Code.Unavailable, Code.Internal, Code.DeadlineExceeded].includes(error.code),
      `${error}`,
    );
  }
  assert.throws(() => connect("127.0.0.1:1", { token: "secret" }), /plain text/);
});

test("connect: guarded node", async (t) => {
  const read = (/** @type {string} */ name) => readFileSync(`${setting("CERTS")}/${name}`);
  const tls = {
    ca: read("ca.pem"),
    certificate: read("client.pem"),
    key: read("client-key.pem"),
    serverName: "node.test",
  };
  const request = {
    submitter: "s01",
    requestId: "ts/guarded",
    payload: { to: "0x00000000000000000000000000000000000000aa", value: "1" },
  };
  for (const options of [{ tls }, { tls, token: "some-other-token-0123456789" }]) {
    const error = await failure(open(t, setting("GUARDED"), options).createAndWait(request));
    assert.deepEqual(
      [error.code, error.reason],
      [Code.Unauthenticated, ErrorReason.UNAUTHENTICATED],
    );
  }
  const tx = await open(t, setting("GUARDED"), { tls, token: setting("TOKEN") }).createAndWait(
    request,
  );
  assert.equal(tx.state, TxState.CONFIRMED);
});

/**
 * Reads a watch up to a number of messages.
 *
 * @param {Client} client
 * @param {string} key
 * @param {number} most
 * @param {string[]} [all]
 */
async function delivered(client, key, most, all = []) {
  return toldOf(client.watch({ target: { case: "submitter", value: `ts/${key}` } }), most, all);
}

/**
 * @param {ReturnType<Client["watch"]>} watch
 * @param {number} most
 * @param {string[]} [all]
 */
async function toldOf(watch, most, all = []) {
  for await (const { message } of watch) {
    if (message.case === "event") {
      all.push(`${message.value.txId} ${message.value.seq}`);
    } else if (message.case === "snapshot") {
      all.push(`${message.value.txId} as of ${message.value.version}`);
    } else {
      all.push("heartbeat");
    }
    if (all.length === most) {
      break;
    }
  }
  return all;
}

for (const [key, want] of Object.entries({
  drains: ["tx 1", "tx 2"],
  ends: ["tx 1", "tx 2"],
  silent: ["tx 1", "tx 2"],
  snapshots: ["kept as of 2", "heartbeat", "kept 3", "new 1"],
})) {
  test(`watch: resumes: ${key}`, async (t) => {
    assert.deepEqual(
      await delivered(open(t, setting("SCRIPTED"), { heartbeatMs: 200 }), key, want.length),
      want,
    );
  });
}

test("watch: several transactions", async (t) => {
  const watch = open(t, setting("SCRIPTED")).watch({
    target: { case: "txs", value: { txIds: ["ts/several", "another"] } },
    untilFinal: true,
  });
  assert.deepEqual(await toldOf(watch, 100), [
    "done as of 5",
    "on as of 1",
    "heartbeat",
    "on 2",
    "on 3",
  ]);
});

for (const [key, reason, events] of /** @type {[string, ErrorReason, number][]} */ ([
  ["expired", ErrorReason.RESUME_TOKEN_EXPIRED, 1],
  ["refused", ErrorReason.SUBMITTER_NOT_FOUND, 0],
  ["down", ErrorReason.STORE_UNAVAILABLE, 0],
])) {
  test(`watch: final error: ${key}`, async (t) => {
    /** @type {string[]} */
    const all = [];
    const error = await failure(
      delivered(open(t, setting("SCRIPTED"), { patienceMs: 500 }), key, 10, all),
    );
    assert.deepEqual([error.reason, all.length], [reason, events]);
  });
}

// A stream that broke while the caller was busy is resumed.
test("watch: slow caller", async (t) => {
  const seqs = [];
  for await (const { message } of open(t, setting("SCRIPTED"), { patienceMs: 200 }).watch({
    target: { case: "submitter", value: "ts/slow/drains" },
  })) {
    assert.ok(message.case === "event");
    if (seqs.push(message.value.seq) === 2) {
      break;
    }
    await setTimeout(400);
  }
  assert.deepEqual(seqs, ["1", "2"]);
});

test("watch: ends with its signal", async (t) => {
  const ending = new AbortController();
  const watch = open(t, setting("SCRIPTED")).watch(
    { target: { case: "submitter", value: "ts/aborted/silent" } },
    ending,
  );
  await watch.next();
  const pending = watch.next();
  ending.abort(new Error("enough"));
  await assert.rejects(pending, /enough/);
});

/**
 * Starts a call, and returns its result or error.
 *
 * @param {() => Promise<unknown>} call
 */
async function end(call) {
  return await Promise.race([
    call().then(
      () => "no error",
      (/** @type {unknown} */ thrown) => thrown,
    ),
    setTimeout(5000, "it goes on"),
  ]);
}

// Close ends everything under way, and later calls fail.
for (const [key, call] of /** @type {[string, (client: Client) => Promise<unknown>][]} */ ([
  ["a watch", (client) => delivered(client, "closed/silent", 10)],
  ["a watch in a wait", (client) => delivered(client, "closed/down", 10)],
  ["a call", (client) => create(client, "closed/slow")],
  ["a call in a wait", (client) => create(client, "closed/later")],
  [
    "a call without a limit",
    (client) =>
      client.txs.createTx(
        { submitter: "alice", requestId: "ts/closed/slow", payload: {} },
        { timeoutMs: 0 },
      ),
  ],
  [
    "a stream of a stub",
    async (client) => {
      for await (const _ of client.txs.watchTx({
        target: { case: "submitter", value: "ts/closed/stub/silent" },
      })) {
        // Empty from here on.
      }
    },
  ],
])) {
  test(`close: ends ${key}`, async () => {
    const client = connect(setting("SCRIPTED"));
    const ended = end(() => call(client));
    assert.equal(await Promise.race([ended, setTimeout(500, "under way")]), "under way");
    client.close();
    for (const error of [await ended, await end(() => call(client))]) {
      assert.ok(error instanceof FencepostError, `${error}`);
      assert.equal(error.code, Code.Canceled);
      assert.match(error.message, /client is closed/);
    }
  });
}

test("close: watch delivers nothing more", async () => {
  const client = connect(setting("SCRIPTED"));
  const error = await failure(
    (async () => {
      let closed = false;
      for await (const _ of client.watch({
        target: { case: "submitter", value: "ts/closed/snapshots" },
      })) {
        assert.ok(!closed, "delivered after close");
        closed = true;
        client.close();
      }
    })(),
  );
  assert.match(error.message, /client is closed/);
});

test("signal: ends waits with its reason, calls with CANCELED", async (t) => {
  const client = open(t, setting("SCRIPTED"));
  for (const key of ["signalled/slow", "signalled/later"]) {
    const request = { submitter: "alice", requestId: `ts/${key}`, payload: {} };
    const signal = AbortSignal.timeout(300);
    const [wait, call] = await Promise.all([
      end(() => client.createAndWait(request, { signal })),
      end(() => client.txs.createTx(request, { signal })),
    ]);
    assert.equal(wait, signal.reason, key);
    assert.ok(call instanceof FencepostError, `${key}: ${call}`);
    assert.equal(call.code, Code.Canceled, key);
  }
});

test("timeout: 0 is no limit", async (t) => {
  const tx = await open(t, setting("SCRIPTED"), { timeoutMs: 0 }).txs.createTx({
    submitter: "alice",
    requestId: "ts/endless/busy",
    payload: {},
  });
  assert.equal(tx.tx?.version, "3");
});

test("timeout: any length reaches the node", async (t) => {
  for (const timeoutMs of [1500.7, 99_999_999, 100_000_000, 2 ** 31, 1e15, Number.MAX_VALUE]) {
    const client = open(t, setting("SCRIPTED"), { timeoutMs });
    assert.ok(await create(client, "whoami"), `${timeoutMs} ms`);
    const stream = client.txs.watchTx(
      { target: { case: "submitter", value: "ts/picky" } },
      { timeoutMs },
    );
    const error = await failure(stream[Symbol.asyncIterator]().next());
    assert.equal(error.reason, ErrorReason.INVALID_FIELD, `a stream of ${timeoutMs} ms: ${error}`);
  }
});

test("call: large response", async (t) => {
  const { txs } = await open(t, setting("SCRIPTED")).txs.listTxs({});
  assert.equal(txs.length, 50);
});

test("watch: heartbeat out of range, rejected", async (t) => {
  const client = open(t, setting("SCRIPTED"), { patienceMs: 200 });
  for (const seconds of [0n, -1n, 10_000_000n]) {
    const watch = client.watch({
      target: { case: "submitter", value: "ts/picky" },
      heartbeat: { seconds, nanos: 0 },
    });
    const error = await failure(watch.next());
    assert.equal(error.reason, ErrorReason.INVALID_FIELD, `${seconds} s: ${error}`);
  }
});

test("connect: invalid targets", () => {
  for (const bad of [
    "http://127.0.0.1:9090",
    "dns:///127.0.0.1:9090",
    "127.0.0.1",
    "127.0.0.1:9090/",
    "::1:9090",
    "",
  ]) {
    assert.throws(() => connect(bad), /host:port/, bad);
  }
  for (const good of ["127.0.0.1:9090", "node.example:443", "[::1]:9090"]) {
    connect(good).close();
  }
});

test("call: queue full, retried after the delay", async (t) => {
  const client = open(t, setting("NARROW"));
  // connects, so that short deadlines below do not include it
  await client.txs.listTxs({ pageSize: 1 });
  const all = (/** @type {number} */ timeoutMs) =>
    Promise.allSettled(
      Array.from({ length: 6 }, (_, i) =>
        client.txs.createTx(
          {
            submitter: "s01",
            requestId: `ts/full/${i}`,
            payload: { to: "0x00000000000000000000000000000000000000aa", value: "1" },
          },
          { timeoutMs },
        ),
      ),
    );
  let full = 0;
  for (const ended of await all(900)) {
    // too short for a retry
    const error =
      ended.status === "rejected" ? await failure(Promise.reject(ended.reason)) : undefined;
    if (error && error.code !== Code.DeadlineExceeded) {
      assert.deepEqual(
        [error.code, error.reason],
        [Code.ResourceExhausted, ErrorReason.QUEUE_FULL],
        `${error}`,
      );
      assert.ok(error.retryAfterMs >= 1000, `${error.retryAfterMs}`);
      full++;
    }
  }
  assert.ok(full > 0, "no call returned QUEUE_FULL");
  for (const ended of await all(60_000)) {
    assert.equal(ended.status, "fulfilled", ended.status === "rejected" ? `${ended.reason}` : "");
  }
});

test("createAndWait", async (t) => {
  const client = open(t, setting("NODE"));
  const request = {
    submitter: "s01",
    requestId: "ts/wait",
    payload: { to: "0x00000000000000000000000000000000000000aa", value: "1" },
  };
  for (let time = 0; time < 2; time++) {
    // the second call finds it final
    const tx = await client.createAndWait(request);
    assert.deepEqual([tx.state, tx.executed], [TxState.CONFIRMED, Executed.SUCCESS]);
    assert.ok(tx.receipt);
  }
  const error = await failure(
    client.createAndWait({ ...request, payload: { ...request.payload, value: "2" } }),
  );
  assert.equal(error.reason, ErrorReason.IDEMPOTENCY_KEY_REUSED);
});
