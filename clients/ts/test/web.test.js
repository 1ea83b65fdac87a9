import assert from "node:assert/strict";
import { createServer } from "node:http";
import process from "node:process";
import { test } from "node:test";
import { createClient } from "@connectrpc/connect";
import { connectNodeAdapter, createGrpcTransport } from "@connectrpc/connect-node";
import { createConnectTransport } from "@connectrpc/connect-web";
import {
  Client,
  connect,
  ErrorReason,
  FencepostError,
  TxService,
  TxState,
} from "@fencepost/client/web";

/**
 * The browser entry, with the fetch of Node.js. A gRPC-Web server forwards calls to the scripted
 * server.
 *
 * @param {import("node:test").TestContext} t
 */
async function front(t) {
  const scripted = process.env["FENCEPOST_TEST_SCRIPTED"];
  assert.ok(scripted, "FENCEPOST_TEST_SCRIPTED is not set: run make clients-test");
  const node = createClient(TxService, createGrpcTransport({ baseUrl: `http://${scripted}` }));
  const handler = connectNodeAdapter({
    routes: (router) => {
      router.service(TxService, {
        createTx: (request, { signal }) => node.createTx(request, { signal }),
        watchTx: (request, { signal }) => node.watchTx(request, { signal }),
      });
    },
  });
  const server = createServer(handler);
  await new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve(undefined)));
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  const address = server.address();
  assert.ok(typeof address === "object" && address !== null);
  return { server, client: connect(`http://127.0.0.1:${address.port}`, { heartbeatMs: 300 }) };
}

test("web: retries and typed errors", async (t) => {
  const { client } = await front(t);
  const { tx } = await client.txs.createTx({
    submitter: "alice",
    requestId: "web/flaky",
    payload: {},
  });
  assert.equal(tx?.version, "3");
  await assert.rejects(
    client.txs.createTx({ submitter: "alice", requestId: "web/wrong", payload: {} }),
    (error) => {
      assert.ok(error instanceof FencepostError);
      assert.equal(error.reason, ErrorReason.INVALID_FIELD);
      assert.deepEqual(error.violations, [
        { field: "payload.to", description: "must be an address" },
      ]);
      return true;
    },
  );
});

for (const what of ["drains", "ends", "silent", "cut"]) {
  test(`web: watch resumes: ${what}`, async (t) => {
    const { client, server } = await front(t);
    const seqs = [];
    const submitter = `web/${what}/${what === "cut" ? "silent" : what}`;
    for await (const { message } of client.watch({
      target: { case: "submitter", value: submitter },
    })) {
      assert.ok(message.case === "event");
      seqs.push(message.value.seq);
      if (seqs.length === 2) {
        break;
      }
      if (what === "cut") {
        server.closeAllConnections();
      }
    }
    assert.deepEqual(seqs, ["1", "2"]);
  });
}

test("web: watch of an unreachable server", async () => {
  const client = connect("http://127.0.0.1:1", { patienceMs: 300 });
  const started = Date.now();
  await assert.rejects(
    client.watch({ target: { case: "submitter", value: "alice" } }).next(),
    FencepostError,
  );
  assert.ok(Date.now() - started >= 300);
});

test("web: close ends a watch", async (t) => {
  const { client } = await front(t);
  const watch = client.watch({ target: { case: "submitter", value: "web/closed/silent" } });
  await watch.next();
  const next = watch.next();
  client.close();
  await assert.rejects(next, /client is closed/);
});

// The API port of a real node, with the transports of a browser.
for (const [protocol, open] of /** @type {[string, (baseUrl: string) => Client][]} */ ([
  ["gRPC-Web", (baseUrl) => connect(baseUrl)],
  ["Connect", (baseUrl) => new Client(createConnectTransport({ baseUrl, useBinaryFormat: true }))],
  ["Connect in JSON", (baseUrl) => new Client(createConnectTransport({ baseUrl }))],
])) {
  test(`web: node serves ${protocol}`, async () => {
    const node = process.env["FENCEPOST_TEST_NODE"];
    assert.ok(node, "FENCEPOST_TEST_NODE is not set: run make clients-test");
    const client = open(`http://${node}`);
    const request = {
      submitter: "s01",
      requestId: `web/${protocol}`,
      payload: { to: "0x00000000000000000000000000000000000000aa", value: "1" },
    };
    const tx = await client.createAndWait(request);
    assert.equal(tx.state, TxState.CONFIRMED);
    const seqs = [];
    for await (const { message } of client.watch({
      target: { case: "txId", value: tx.txId },
      untilFinal: true,
    })) {
      if (message.case === "event") {
        seqs.push(Number(message.value.seq));
      }
    }
    assert.deepEqual(
      seqs,
      seqs.map((_, at) => at + 1),
    );
    assert.equal(String(seqs.length), tx.version);
    await assert.rejects(
      client.txs.createTx({ ...request, payload: { ...request.payload, value: "2" } }),
      (error) => {
        assert.ok(error instanceof FencepostError);
        assert.equal(error.reason, ErrorReason.IDEMPOTENCY_KEY_REUSED);
        return true;
      },
    );
  });
}
