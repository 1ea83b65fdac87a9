import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createServer } from "node:http2";
import { test } from "node:test";
import { create } from "@bufbuild/protobuf";
import { BinaryWriter } from "@bufbuild/protobuf/wire";
import { ConnectError } from "@connectrpc/connect";
import { BatchCreateTxResultSchema, Client, Code, connect, ErrorReason, FencepostError, watchTx, watchTxs } from "@fencepost/client";

/**
 * An error as a transport throws it.
 * @param {Code} code
 * @param {string} reason
 * @param {number} seconds
 */
function thrown(code, reason, seconds) {
  const error = new ConnectError("so it is", code);
  if (reason !== "") {
    const info = new BinaryWriter().tag(1, 2).string(reason).tag(2, 2).string("fencepost.dev").finish();
    error.details.push({ type: "google.rpc.ErrorInfo", value: info });
  }
  if (seconds > 0) {
    const duration = new BinaryWriter().tag(1, 0).int64(seconds).finish();
    error.details.push({ type: "google.rpc.RetryInfo", value: new BinaryWriter().tag(1, 2).bytes(duration).finish() });
  }
  return error;
}

// One table, which the tests of all languages go through.
test("which errors a watch outlives", () => {
  const lines = readFileSync(new URL("../../resumable.csv", import.meta.url), "utf8").trim().split("\n").slice(1);
  const codes = new Map(Object.entries(Code).map(([name, code]) => [name.toUpperCase(), code]));
  for (const line of lines) {
    const [name = "", rule = ""] = line.split(",");
    const code = codes.get(name === "CANCELLED" ? "CANCELED" : name.replaceAll("_", ""));
    assert.ok(typeof code === "number", name);
    for (const reason of ["", "NODE_BUSY"]) {
      for (const seconds of [0, 1]) {
        const want = new Map([["always", true], ["never", false], ["without a reason", reason === ""], ["with a delay", seconds > 0]]).get(rule);
        const error = FencepostError.from(thrown(code, reason, seconds));
        assert.deepEqual([error.reasonName, error.retryAfterMs], [reason, 1000 * seconds]);
        assert.equal(error.resumable, want, `${line}: reason "${reason}", ${seconds} s`);
      }
    }
  }
  assert.equal(lines.length, 16);
});

/**
 * How a call and a watch fail, and a stream of a stub.
 * @param {Client} client
 * @param {string} txId
 * @param {AbortSignal} [signal]
 */
async function failures(client, txId, signal) {
  const options = signal === undefined ? {} : { signal };
  const through = async (/** @type {AsyncIterable<unknown>} */ messages) => {
    for await (const _ of messages) {
      // It has nothing to say.
    }
  };
  const calls = [
    () => client.txs.getTx({ key: { case: "txId", value: txId } }, options),
    () => through(client.txs.watchTx(watchTx(txId), options)),
    ...(signal === undefined ? [() => through(client.watch(watchTx(txId)))] : []), // a watch throws the reason of the signal
  ];
  return Promise.all(calls.map(async (call) => call().then(() => "no error", (/** @type {unknown} */ thrown) => thrown)));
}

// What the client makes of itself stays so: whoever asks again for as long as an error is resumable would never end.
test("errors of the client itself are not resumable", async () => {
  const node = createServer();
  node.on("session", (session) => session.on("error", () => {}));
  node.on("stream", (stream) => stream.on("error", () => {}));
  await new Promise((resolve) => node.listen(0, "127.0.0.1", () => resolve(undefined)));
  const target = `127.0.0.1:${/** @type {import("node:net").AddressInfo} */ (node.address()).port}`;
  const open = connect(target);
  const closed = connect(target);
  closed.close();
  try {
    for (const [client, txId, signal, code] of /** @type {[Client, any, AbortSignal | undefined, Code][]} */ ([
      [closed, "id", undefined, Code.Canceled],
      [open, "id", AbortSignal.abort(), Code.Canceled],
      [open, Symbol("no id"), undefined, Code.Internal],
    ])) {
      for (const error of await failures(client, txId, signal)) {
        assert.ok(error instanceof FencepostError, `${error}`);
        assert.deepEqual([error.code, error.resumable], [code, false], error.message);
      }
    }
  } finally {
    open.close();
    node.close();
  }
});

/** @param {Promise<unknown>} call */
async function reasonOf(call) {
  return call.then(() => "no error", (/** @type {unknown} */ thrown) => thrown);
}

// A timeout alone says nothing of a node that is not there.
test("a timeout tells what went before", async () => {
  let attempts = 0;
  const hanging = new Client({
    async unary(_method, _signal, timeoutMs = 0) {
      if (attempts++ === 0) {
        throw new ConnectError("connection refused", Code.Unavailable);
      }
      await new Promise((resolve) => setTimeout(resolve, timeoutMs));
      throw new ConnectError("too late", Code.DeadlineExceeded);
    },
    stream: () => Promise.reject(new Error("not asked for")),
  }, { timeoutMs: 600 });
  const error = await reasonOf(hanging.txs.getTx({ key: { case: "txId", value: "id" } }));
  assert.ok(error instanceof FencepostError, `${error}`);
  assert.deepEqual([error.code, error.resumable], [Code.DeadlineExceeded, false]);
  assert.match(error.message, /too late; the attempt before failed: Unavailable: connection refused/);
  hanging.close();

  const nobody = connect("127.0.0.1:1");
  try {
    for (const ask of /** @type {((signal: AbortSignal) => Promise<unknown>)[]} */ ([
      (signal) => nobody.createAndWait({}, { signal }),
      (signal) => nobody.watch(watchTx("id"), { signal }).next(),
    ])) {
      const signal = AbortSignal.timeout(400);
      const thrown = await reasonOf(ask(signal));
      assert.equal(thrown, signal.reason);
      assert.ok(thrown instanceof DOMException && thrown.name === "TimeoutError", `${thrown}`);
      assert.match(`${thrown.cause}`, /ECONNREFUSED/);
      const own = new Error("of the caller");
      const controller = new AbortController();
      setTimeout(() => controller.abort(own), 100);
      assert.equal(await reasonOf(ask(controller.signal)), own);
      assert.equal(own.cause, undefined);
    }
  } finally {
    nobody.close();
  }
});

test("a request to watch several transactions names them all, until all are final", () => {
  assert.deepEqual(watchTxs("a", "b"), { target: { case: "txs", value: { txIds: ["a", "b"] } }, untilFinal: true });
});

// A batch answers for each request by itself: what it says of one that was refused is typed like an error that is thrown.
test("the error of a result of a batch", () => {
  const info = new BinaryWriter().tag(1, 2).string("QUEUE_FULL").tag(2, 2).string("fencepost.dev").finish();
  const details = [{ typeUrl: "type.googleapis.com/google.rpc.ErrorInfo", value: info }];
  const result = create(BatchCreateTxResultSchema, { result: { case: "error", value: { code: Code.ResourceExhausted, message: "it is full", details } } });
  assert.equal(result.result.case, "error");
  const error = FencepostError.from(result.result.value);
  assert.deepEqual([error.code, error.reason, error.message], [Code.ResourceExhausted, ErrorReason.QUEUE_FULL, "ResourceExhausted (QUEUE_FULL): it is full"]);
});
