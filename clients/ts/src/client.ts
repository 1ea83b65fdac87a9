import type { MessageInitShape } from "@bufbuild/protobuf";
import { createClient, type Client as Stub, type Transport } from "@connectrpc/connect";
import { NonceService } from "@fencepost/client-gen/fencepost/v1/nonce";
import { PoolService } from "@fencepost/client-gen/fencepost/v1/pool";
import { SinkService } from "@fencepost/client-gen/fencepost/v1/sink";
import { StatusService } from "@fencepost/client-gen/fencepost/v1/status";
import { SubmitterService } from "@fencepost/client-gen/fencepost/v1/submitter";
import {
  type CreateTxRequestSchema,
  type Tx,
  TxService,
  TxState,
  type WatchTxRequestSchema,
  type WatchTxResponse,
} from "@fencepost/client-gen/fencepost/v1/tx";
import { Ending } from "./ending.js";
import { type NonceHandle, type NonceHandler, type NonceOptions, withNonce } from "./nonce.js";
import { patient } from "./retry.js";
import { watch } from "./watch.js";

/** Options for any transport. */
export interface ClientOptions {
  /**
   * Sent with each call as "authorization: Bearer <token>". Use it only with an encrypted
   * transport.
   */
  readonly token?: string;
  /**
   * Limits a call including its retries, unless its own timeoutMs is set; 0 means no limit, and the
   * maximum is 99,999,999 ms (almost 28 hours). Default 60 s. It does not apply to a watch.
   */
  readonly timeoutMs?: number;
  /**
   * Interval of heartbeats on an idle watch, unless its request sets one; 1 s to 5 min, default 15
   * s. A stream that is silent for three intervals counts as dead.
   */
  readonly heartbeatMs?: number;
  /** Limits how long a watch tries to get a new stream. Default 5 min. */
  readonly patienceMs?: number;
}

export interface WaitOptions {
  /**
   * Ends the wait; its reason is thrown. The reason of AbortSignal.timeout gets a cause if the node
   * could not be reached. (A call of txs or submitters ended by its signal fails with a
   * FencepostError, CANCELED.)
   */
  readonly signal?: AbortSignal;
}

/**
 * A client of Fencepost. Its txs and submitters are the generated stubs for every call of the
 * contract. The client adds:
 *
 * - Retries: a call that fails with UNAVAILABLE is retried up to four times with growing delays;
 *   one that fails with RESOURCE_EXHAUSTED, only if the node sends a retry delay. Both are safe: an
 *   unchanged call cannot act twice.
 * - Typed errors: every error is a FencepostError with the reason given by the node.
 * - watch, which resumes automatically when its stream breaks, and createAndWait, which returns a
 *   transaction once it is final.
 *
 * connect returns a client for Node.js or a browser; the constructor accepts any Connect transport.
 * A program needs only one client.
 */
export class Client {
  /** Creates, reads, cancels and watches transactions. */
  readonly txs: Stub<typeof TxService>;
  /** Manages the accounts that Fencepost sends from, for operators. */
  readonly submitters: Stub<typeof SubmitterService>;
  /** Manages the delivery of events to other systems, for operators. */
  readonly sinks: Stub<typeof SinkService>;
  /** Reserves nonces for programs that sign themselves; see withNonce. */
  readonly nonces: Stub<typeof NonceService>;
  /** Manages pools of accounts, for operators. */
  readonly pools: Stub<typeof PoolService>;
  /** Reports the state of the nodes and their chains. */
  readonly status: Stub<typeof StatusService>;
  readonly #limits: { heartbeatMs: number; patienceMs: number };
  readonly #ending = new Ending();
  readonly #close: () => void;

  constructor(transport: Transport, options: ClientOptions = {}, close: () => void = () => {}) {
    const patiently = patient(transport, options.timeoutMs ?? 60_000, options.token, this.#ending);
    this.txs = createClient(TxService, patiently);
    this.submitters = createClient(SubmitterService, patiently);
    this.sinks = createClient(SinkService, patiently);
    this.nonces = createClient(NonceService, patiently);
    this.pools = createClient(PoolService, patiently);
    this.status = createClient(StatusService, patiently);
    this.#limits = {
      heartbeatMs: options.heartbeatMs ?? 15_000,
      patienceMs: options.patienceMs ?? 300_000,
    };
    this.#close = close;
  }

  /**
   * Ends the connection, all calls and watches, and pending retries. They fail with a
   * FencepostError, CANCELED, as do later calls.
   */
  close(): void {
    this.#ending.end();
    this.#close();
  }

  /**
   * Creates a transaction and returns it once it is final, for any outcome: see its state and
   * executed. A request with a known requestId waits for that transaction. If the signal ends the
   * wait, the transaction continues, and the same call waits for it again.
   */
  async createAndWait(
    request: MessageInitShape<typeof CreateTxRequestSchema>,
    options: WaitOptions = {},
  ): Promise<Tx> {
    options.signal?.throwIfAborted();
    try {
      return await this.#createAndWait(request, options);
    } catch (reason) {
      options.signal?.throwIfAborted();
      throw reason;
    }
  }

  async #createAndWait(
    request: MessageInitShape<typeof CreateTxRequestSchema>,
    options: WaitOptions,
  ): Promise<Tx> {
    const created = await this.txs.createTx(request, options);
    let tx = created.tx!;
    // It repeats only if a reorg makes the transaction non-final between the watch and the read.
    while (!isFinal(tx.state)) {
      for await (const _ of this.watch(watchTx(tx.txId), options)) {
        // Only the end matters.
      }
      const got = await this.txs.getTx({ key: { case: "txId", value: tx.txId } }, options);
      tx = got.tx!;
    }
    return tx;
  }

  /**
   * Delivers every requested event once, in order per transaction, over as many streams as
   * necessary. If a stream breaks, or is silent for three heartbeats, it resumes on any node.
   *
   * A message with a resumeToken marks a position: put it into the request of another watch, even
   * in another process, to continue after that message. Heartbeats are delivered too, and advance
   * the token of a quiet watch.
   *
   * A watch of a submitter, or of all, begins with snapshots of transactions that are not final.
   * They are delivered once complete, and the heartbeat after them has the first token. Events
   * already covered by a snapshot are omitted. A watch of several transactions (txs) begins in the
   * same way, with snapshots of final ones too.
   *
   * It ends when the loop is left; with untilFinal, once all its transactions are final. It throws
   * the reason of the signal, or a FencepostError: when the client is closed, when the node rejects
   * the request, after patienceMs without a stream, or with RESUME_TOKEN_EXPIRED when the next
   * events are no longer in the ledger, which only the caller can handle.
   */
  watch(
    request: MessageInitShape<typeof WatchTxRequestSchema>,
    options: WaitOptions = {},
  ): AsyncGenerator<WatchTxResponse, void, undefined> {
    return watch(this.txs, request, this.#limits, this.#ending, options.signal);
  }

  /**
   * Reserves a nonce of a submitter in mode EXTERNAL, runs the handler with it, and reports the
   * result: signed bytes are submitted, a hash is recorded. It extends the reservation while the
   * handler runs.
   *
   * After an exception of the handler, or of the report, the nonce is quarantined: a signed
   * transaction may exist, so it is not used again before the chain shows that, or an operator
   * decides. Only a NeverSigned releases it. If this process dies, the reservation expires, with
   * the same effect.
   */
  withNonce(
    submitter: string,
    handler: NonceHandler,
    options: NonceOptions = {},
  ): Promise<NonceHandle> {
    return withNonce(this, submitter, handler, options);
  }
}

/** Requests the events of one transaction until it is final. */
export function watchTx(txId: string): MessageInitShape<typeof WatchTxRequestSchema> {
  return { target: { case: "txId", value: txId }, untilFinal: true };
}

/**
 * Requests the events of several transactions, at most 100, until all are final. It first delivers
 * a snapshot of each, newest first.
 */
export function watchTxs(...txIds: string[]): MessageInitShape<typeof WatchTxRequestSchema> {
  return { target: { case: "txs", value: { txIds } }, untilFinal: true };
}

/** Reports whether a state is final: CONFIRMED, FAILED_FINAL or CANCELLED. */
export function isFinal(state: TxState): boolean {
  return (
    state === TxState.CONFIRMED || state === TxState.FAILED_FINAL || state === TxState.CANCELLED
  );
}
