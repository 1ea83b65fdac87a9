import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { readFileSync } from "node:fs";
import process from "node:process";
import { test } from "node:test";
import { setTimeout } from "node:timers/promises";
import { connect, Executed, NeverSigned, NonceState, TxState } from "@fencepost/client";

/**
 * Waits until a reservation meets a condition.
 *
 * @param {import("@fencepost/client").Client} client
 * @param {string} reservationId
 * @param {(nonce: import("@fencepost/client").Nonce) => boolean} holds
 */
async function until(client, reservationId, holds) {
  for (;;) {
    const { nonce } = await client.nonces.getNonce({ reservationId });
    assert.ok(nonce);
    if (holds(nonce)) {
      return nonce;
    }
    await setTimeout(20);
  }
}

// In order: the chain includes the nonces of one account in order.
test("withNonce", async (t) => {
  const folder = process.env["FENCEPOST_TEST_EXTERNAL"];
  assert.ok(folder, "FENCEPOST_TEST_EXTERNAL is not set: run make clients-test");
  const [target, name, rpc, ...signed] = readFileSync(`${folder}/ts`, "utf8").split(/\s+/);
  assert.ok(target && name && rpc);
  const client = connect(target);
  t.after(() => client.close());
  /**
   * Broadcasts the transaction of a nonce.
   *
   * @param {bigint} nonce
   */
  const send = async (nonce) => {
    const at = 2 * Number(nonce);
    const answer = await fetch(rpc, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({
        jsonrpc: "2.0",
        id: 1,
        method: "eth_sendRawTransaction",
        params: [signed[at]],
      }),
    });
    const text = await answer.text();
    assert.ok(!text.includes("error"), text);
    return { txHash: signed[at + 1] ?? "" };
  };
  /** @param {import("@fencepost/client").Nonce} nonce */
  const reportLate = async (nonce) => {
    const { txHash } = await send(BigInt(nonce.nonce));
    await client.nonces.recordNonceHash({ reservationId: nonce.reservationId, txHash });
  };
  /** @param {import("@fencepost/client").NonceHandle} handle */
  const accepted = async (handle) => {
    const { nonce } = await handle.wait();
    assert.equal(nonce.state, NonceState.ACCEPTED);
  };

  await accepted(await client.withNonce(name, ({ nonce }) => send(nonce)));

  let unsigned = -1n;
  const never = client.withNonce(name, ({ nonce }) => {
    unsigned = nonce;
    throw new NeverSigned("not this time");
  });
  await assert.rejects(never, NeverSigned);

  let thrown = { nonce: -1n, reservationId: "" };
  const fault = new Error("not this time");
  const failing = client.withNonce(name, (n) => {
    thrown = { nonce: n.nonce, reservationId: n.reservationId };
    throw fault;
  });
  await assert.rejects(failing, fault);
  assert.equal(thrown.nonce, unsigned, "a nonce that was never signed is reserved again");
  const quarantined = await until(client, thrown.reservationId, () => true);
  assert.equal(quarantined.state, NonceState.PENDING);
  await reportLate(quarantined);
  await until(client, thrown.reservationId, (n) => n.state === NonceState.ACCEPTED);

  // The process dies after the allocation.
  const died = await client.nonces.allocateNonce({
    submitter: name,
    requestId: "died",
    ttl: { seconds: 1n },
  });
  assert.ok(died.nonce);
  await until(client, died.nonce.reservationId, (n) => n.state === NonceState.PENDING);
  const handle = await client.withNonce(name, () => assert.fail("the reservation has expired"), {
    requestId: "died",
  });
  assert.equal(handle.nonce.nonce, died.nonce.nonce);
  await reportLate(handle.nonce); // it had signed, and reports late
  await accepted(handle);

  // A handler that takes longer than a TTL keeps its reservation.
  const slow = await client.withNonce(
    name,
    async ({ nonce, reservationId }) => {
      const first = await until(client, reservationId, () => true);
      await until(
        client,
        reservationId,
        (n) => (n.expireTime?.seconds ?? 0n) > (first.expireTime?.seconds ?? 0n),
      );
      return send(nonce);
    },
    { ttlMs: 2000 },
  );
  await accepted(slow);

  // Fencepost broadcasts signed bytes, and the wait lasts to finality.
  let at = -1;
  const submitted = await client.withNonce(name, ({ nonce }) => {
    at = 2 * Number(nonce);
    return { rawTx: Buffer.from((signed[at] ?? "").slice(2), "hex") };
  });
  const { nonce, tx } = await submitted.wait();
  assert.equal(nonce.state, NonceState.ACCEPTED);
  assert.equal(tx?.state, TxState.CONFIRMED);
  assert.equal(tx?.executed, Executed.SUCCESS);
  assert.equal(tx?.txHash, signed[at + 1]);
});

test("withNonce, lost replies", async (t) => {
  const scripted = process.env["FENCEPOST_TEST_SCRIPTED"];
  assert.ok(scripted, "FENCEPOST_TEST_SCRIPTED is not set: run make clients-test");
  const client = connect(scripted);
  t.after(() => client.close());
  let runs = 0;
  const handle = await client.withNonce(
    "alice",
    () => {
      runs++;
      return { rawTx: Uint8Array.of(7) };
    },
    { requestId: "ts" },
  );
  assert.equal(runs, 1);
  assert.equal(BigInt(handle.nonce.nonce), 7n);
  assert.equal(handle.nonce.state, NonceState.PENDING);
});
