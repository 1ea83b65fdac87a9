import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createServer } from "node:http2";
import { test } from "node:test";
import { create } from "@bufbuild/protobuf";
import { BinaryWriter } from "@bufbuild/protobuf/wire";
import { ConnectError } from "@connectrpc/connect";
import {
  BatchCreateTxResultSchema,
  Client,
  Code,
  connect,
  ErrorReason,
  FencepostError,
  watchTx,
  watchTxs,
} from "@fencepost/client";

/**
 * Returns an error as a transport throws it.
 *
 * @param {Code} code
 * @param {string} reason
 * @param {number} seconds
 */
function thrown(code, reason, seconds) {
  const error = new ConnectError("so it is", code);
  if (reason !== "") {
    const info = new BinaryWriter()
      .tag(1, 2)
      .string(reason)
      .tag(2, 2)
      .string("fencepost.dev")
      .finish();
    error.details.push({ type: "google.rpc.ErrorInfo", value: info });
  }
  if (seconds > 0) {
    const duration = new BinaryWriter().tag(1, 0).int64(seconds).finish();
    error.details.push({
      type: "google.rpc.RetryInfo",
      value: new BinaryWriter().tag(1, 2).bytes(duration).finish(),
    });
  }
  return error;
}

// One table for all languages.
test("resumable: table", () => {
  const lines = readFileSync(new URL("../../resumable.csv", import.meta.url), "utf8")
    .trim()
    .split("\n")
    .slice(1);
  const codes = new Map(Object.entries(Code).map(([name, code]) => [name.toUpperCase(), code]));
  for (const line of lines) {
    const [name = "", rule = ""] = line.split(",");
    const code = codes.get(name === "CANCELLED" ? "CANCELED" : name.replaceAll("_", ""));
    assert.ok(typeof code === "number", name);
    for (const reason of ["", "NODE_BUSY"]) {
      for (const seconds of [0, 1]) {
        const want = new Map([
          ["always", true],
          ["never", false],
          ["without a reason", reason === ""],
          ["with a delay", seconds > 0],
        ]).get(rule);
        const error = FencepostError.from(thrown(code, reason, seconds));
        assert.deepEqual([error.reasonName, error.retryAfterMs], [reason, 1000 * seconds]);
        assert.equal(error.resumable, want, `${line}: reason "${reason}", ${seconds} s`);
      }
    }
  }
  assert.equal(lines.length, 16);
});

/**
 * Returns the errors of a call, a watch, and a stream of a stub.
 *
 * @param {Client} client
 * @param {string} txId
 * @param {AbortSignal} [signal]
 */
async function failures(client, txId, signal) {
  const options = signal === undefined ? {} : { signal };
  const through = async (/** @type {AsyncIterable<unknown>} */ messages) => {
    for await (const _ of messages) {
      // No messages.
    }
  };
  const calls = [
    () => client.txs.getTx({ key: { case: "txId", value: txId } }, options),
    () => through(client.txs.watchTx(watchTx(txId), options)),
    ...(signal === undefined ? [() => through(client.watch(watchTx(txId)))] : []),
  ];
  return Promise.all(
    calls.map(async (call) =>
      call().then(
        () => "no error",
        (/** @type {unknown} */ thrown) => thrown,
      ),
    ),
  );
}

// Retrying such an error would never end.
test("resumable: client errors, never", async () => {
  const node = createServer();
  node.on("session", (session) => session.on("error", () => {}));
  node.on("stream", (stream) => stream.on("error", () => {}));
  await new Promise((resolve) => node.listen(0, "127.0.0.1", () => resolve(undefined)));
  const target = `127.0.0.1:${/** @type {import("node:net").AddressInfo} */ (node.address()).port}`;
  const open = connect(target);
  const closed = connect(target);
  closed.close();
  try {
    for (const [
      client,
      txId,
      signal,
      code,
    ] of /** @type {[Client, any, AbortSignal | undefined, Code][]} */ ([
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
  return call.then(
    () => "no error",
    (/** @type {unknown} */ thrown) => thrown,
  );
}

// A timeout includes the failure of the attempts.
test("timeout: includes the last failure", async () => {
  let attempts = 0;
  const hanging = new Client(
    {
      async unary(_method, _signal, timeoutMs = 0) {
        if (attempts++ === 0) {
          throw new ConnectError("connection refused", Code.Unavailable);
        }
        await new Promise((resolve) => setTimeout(resolve, timeoutMs));
        throw new ConnectError("too late", Code.DeadlineExceeded);
      },
      stream: () => Promise.reject(new Error("not asked for")),
    },
    { timeoutMs: 600 },
  );
  const error = await reasonOf(hanging.txs.getTx({ key: { case: "txId", value: "id" } }));
  assert.ok(error instanceof FencepostError, `${error}`);
  assert.deepEqual([error.code, error.resumable], [Code.DeadlineExceeded, false]);
  assert.match(
    error.message,
    /too late; the previous attempt failed: Unavailable: connection refused/,
  );
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

test("watchTxs", () => {
  assert.deepEqual(watchTxs("a", "b"), {
    target: { case: "txs", value: { txIds: ["a", "b"] } },
    untilFinal: true,
  });
});

// The error of a batch result converts like a thrown error.
test("from: batch result", () => {
  const info = new BinaryWriter()
    .tag(1, 2)
    .string("QUEUE_FULL")
    .tag(2, 2)
    .string("fencepost.dev")
    .finish();
  const details = [{ typeUrl: "type.googleapis.com/google.rpc.ErrorInfo", value: info }];
  const result = create(BatchCreateTxResultSchema, {
    result: {
      case: "error",
      value: { code: Code.ResourceExhausted, message: "it is full", details },
    },
  });
  assert.equal(result.result.case, "error");
  const error = FencepostError.from(result.result.value);
  assert.deepEqual(
    [error.code, error.reason, error.message],
    [Code.ResourceExhausted, ErrorReason.QUEUE_FULL, "ResourceExhausted (QUEUE_FULL): it is full"],
  );
});
