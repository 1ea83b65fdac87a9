import type { Nonce } from "@fencepost/client-gen/fencepost/v1/nonce";
import { NonceState } from "@fencepost/client-gen/fencepost/v1/nonce";
import type { Tx } from "@fencepost/client-gen/fencepost/v1/tx";
import { TxState } from "@fencepost/client-gen/fencepost/v1/tx";
import type { Client, WaitOptions } from "./client.js";

/** A reserved nonce, for the handler of withNonce. */
export interface NonceContext {
  readonly nonce: bigint;
  readonly chainId: bigint;
  /** Address of the account. */
  readonly from: string;
  readonly reservationId: string;
}

/**
 * The result of a handler: rawTx has Fencepost broadcast the signed transaction and track it to
 * finality; txHash reports a transaction that the handler has broadcast itself.
 */
export type NonceResult = { readonly rawTx: Uint8Array } | { readonly txHash: string };

/**
 * Signs a transaction for a reserved nonce. Any exception, but for NeverSigned, means that a signed
 * transaction may exist.
 */
export type NonceHandler = (nonce: NonceContext) => NonceResult | Promise<NonceResult>;

/**
 * Thrown by a handler that has signed nothing for its nonce and never will: the nonce is reserved
 * for another call. Use it only if that is certain.
 */
export class NeverSigned extends Error {
  override readonly name = "NeverSigned";
}

export interface NonceOptions extends WaitOptions {
  /**
   * Names the reservation; default: a random one. A repeated call with the same id gets the same
   * nonce. While it is reserved, its handler must then sign the same transaction; after that, the
   * call returns its handle and runs no handler.
   */
  readonly requestId?: string;
  /**
   * Names this process; default: a name of its own. While the nonce of a requestId is reserved,
   * another holder gets an error (IDEMPOTENCY_KEY_REUSED), so that its handler does not run as
   * well.
   */
  readonly holder?: string;
  /**
   * Time until the reservation of a process that died expires; at least 1 s, default 30 s. While
   * the handler runs, the reservation is extended.
   */
  readonly ttlMs?: number;
}

/** The default holder of reservations. No other process has the same. */
const thisProcess = `ts/${globalThis.crypto.randomUUID()}`;

const pollMs = 1000;
/** States that lead to another one without an operator. */
const moving = [TxState.QUEUED, TxState.ALLOCATED, TxState.TRACKING];
const maxReason = 500;

/** Implements Client.withNonce. */
export async function withNonce(
  client: Client,
  submitter: string,
  handler: NonceHandler,
  options: NonceOptions,
): Promise<NonceHandle> {
  const ttlMs = options.ttlMs ?? 30_000;
  const allocated = await client.nonces.allocateNonce(
    {
      submitter,
      requestId: options.requestId ?? globalThis.crypto.randomUUID(),
      holder: options.holder ?? thisProcess,
      ttl: duration(ttlMs),
    },
    callOptions(options.signal),
  );
  const nonce = allocated.nonce!;
  if (nonce.state !== NonceState.RESERVED) {
    return new NonceHandle(client, nonce); // an earlier call with this request id has ended
  }
  try {
    const result = await run(client, nonce, handler, ttlMs);
    return new NonceHandle(client, await report(client, nonce, result));
  } catch (reason) {
    await giveUp(client, nonce, reason);
    throw reason;
  }
}

/** Extends the reservation while the handler runs. */
async function run(
  client: Client,
  nonce: Nonce,
  handler: NonceHandler,
  ttlMs: number,
): Promise<NonceResult> {
  const timer = setInterval(() => {
    // A failure is not the handler's: a report of an expired reservation is accepted too.
    client.nonces
      .extendReservation({ reservationId: nonce.reservationId, ttl: duration(ttlMs) })
      .catch(() => {});
  }, ttlMs / 3);
  try {
    return await handler({
      nonce: BigInt(nonce.nonce),
      chainId: BigInt(nonce.chainId),
      from: nonce.address,
      reservationId: nonce.reservationId,
    });
  } finally {
    clearInterval(timer);
  }
}

/** Reports the result of a handler. */
async function report(client: Client, nonce: Nonce, result: NonceResult): Promise<Nonce> {
  const { reservationId } = nonce;
  if ("rawTx" in result) {
    const { rawTx } = result;
    return (await client.nonces.submitSigned({ reservationId, rawTx })).nonce!;
  }
  const { txHash } = result;
  return (await client.nonces.recordNonceHash({ reservationId, txHash })).nonce!;
}

/**
 * Quarantines a nonce, or releases it if nothing was signed for it. If that fails, the reservation
 * expires, and the exception of the handler counts.
 */
async function giveUp(client: Client, nonce: Nonce, why: unknown): Promise<void> {
  const { reservationId } = nonce;
  const reason = String(why).slice(0, maxReason / 4); // the limit is in bytes
  try {
    if (why instanceof NeverSigned) {
      await client.nonces.releaseNonce({ reservationId, neverSigned: true, reason });
    } else {
      await client.nonces.quarantineNonce({ reservationId, reason });
    }
  } catch {
    // It expires.
  }
}

/** A nonce whose transaction was reported. */
export class NonceHandle {
  readonly #client: Client;
  /** The nonce as it was reported. */
  readonly nonce: Nonce;

  constructor(client: Client, nonce: Nonce) {
    this.#client = client;
    this.nonce = nonce;
  }

  /**
   * Returns once the nonce is ACCEPTED, which is final, or RECYCLABLE, because it was never used.
   * tx is the transaction that Fencepost tracks for it, if any. It is final too, or STUCK, which is
   * for an operator. If the signal ends the wait, the same call waits again.
   */
  async wait(options: WaitOptions = {}): Promise<{ nonce: Nonce; tx?: Tx }> {
    for (;;) {
      options.signal?.throwIfAborted();
      const got = await this.#client.nonces.getNonce(
        { reservationId: this.nonce.reservationId },
        callOptions(options.signal),
      );
      const nonce = got.nonce!;
      if (nonce.state === NonceState.ACCEPTED || nonce.state === NonceState.RECYCLABLE) {
        if (nonce.txId === "") {
          return { nonce };
        }
        const got = await this.#client.txs.getTx(
          { key: { case: "txId", value: nonce.txId } },
          callOptions(options.signal),
        );
        const tx = got.tx!;
        if (!moving.includes(tx.state)) {
          return { nonce, tx };
        }
      }
      await new Promise((resume) => setTimeout(resume, pollMs));
    }
  }
}

function duration(ms: number): { seconds: bigint; nanos: number } {
  return { seconds: BigInt(Math.floor(ms / 1000)), nanos: Math.round(ms % 1000) * 1_000_000 };
}

function callOptions(signal: AbortSignal | undefined): { signal?: AbortSignal } {
  return signal === undefined ? {} : { signal };
}
