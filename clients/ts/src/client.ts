import type { MessageInitShape } from "@bufbuild/protobuf";
import { createClient, type Client as Stub, type Transport } from "@connectrpc/connect";
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
import { patient } from "./retry.js";
import { watch } from "./watch.js";

/** How long a client waits, whatever its transport is. */
export interface ClientOptions {
  /** Sent with each call as "authorization: Bearer <token>". Give it only to a transport that encrypts. */
  readonly token?: string;
  /** How long a call may take in all, repetitions included, unless its own timeoutMs says otherwise; 0 is no limit, and a day and 3:46 hours the longest. Default 60 s. A watch has none. */
  readonly timeoutMs?: number;
  /**
   * How often an idle watch hears from the node, unless its request says; 1 s to 5 min, default 15 s. A watch that hears nothing for three times as long takes
   * its stream for dead.
   */
  readonly heartbeatMs?: number;
  /** How long a watch tries to get a stream again before it gives up. Default 5 min. */
  readonly patienceMs?: number;
}

export interface WaitOptions {
  /** Ends the wait; its reason is thrown. That of AbortSignal.timeout gets a cause if the node could not be reached before. (A call of txs or submitters that its signal ends fails with a FencepostError, CANCELED.) */
  readonly signal?: AbortSignal;
}

/**
 * A client of Fencepost. Its txs and submitters are the generated stubs, so every call of the contract is there. What the client adds is small:
 *
 * - A call that fails with UNAVAILABLE is repeated, up to four times with growing pauses; one that fails with RESOURCE_EXHAUSTED is repeated only if the node
 *   says when. Both are safe: a call of Fencepost that is repeated unchanged cannot act twice.
 * - Every error is a FencepostError, with the reason that the node gave.
 * - watch resumes by itself when its stream breaks; createAndWait creates a transaction and returns it once it is final.
 *
 * connect makes one for Node.js or for a browser; the constructor takes any transport of Connect. One for a whole program is enough.
 */
export class Client {
  /** Creates, reads, cancels and watches transactions. */
  readonly txs: Stub<typeof TxService>;
  /** For operators: the accounts that Fencepost sends from. */
  readonly submitters: Stub<typeof SubmitterService>;
  readonly #limits: { heartbeatMs: number; patienceMs: number };
  readonly #ending = new Ending();
  readonly #close: () => void;

  constructor(transport: Transport, options: ClientOptions = {}, close: () => void = () => {}) {
    const patiently = patient(transport, options.timeoutMs ?? 60_000, options.token, this.#ending);
    this.txs = createClient(TxService, patiently);
    this.submitters = createClient(SubmitterService, patiently);
    this.#limits = { heartbeatMs: options.heartbeatMs ?? 15_000, patienceMs: options.patienceMs ?? 300_000 };
    this.#close = close;
  }

  /**
   * Ends the connection, and with it every call and every watch under way, also those that wait to be made again: they fail with a FencepostError, CANCELED, and
   * so does whatever is asked of the client later.
   */
  close(): void {
    this.#ending.end();
    this.#close();
  }

  /**
   * Creates a transaction and returns it once it is final, whether it succeeded or not: its state and executed tell. A request whose requestId was used before
   * waits for that transaction. When the signal ends the wait, the transaction goes on, and the same call waits for it again.
   */
  async createAndWait(request: MessageInitShape<typeof CreateTxRequestSchema>, options: WaitOptions = {}): Promise<Tx> {
    options.signal?.throwIfAborted();
    try {
      return await this.#createAndWait(request, options);
    } catch (reason) {
      options.signal?.throwIfAborted();
      throw reason;
    }
  }

  async #createAndWait(request: MessageInitShape<typeof CreateTxRequestSchema>, options: WaitOptions): Promise<Tx> {
    const created = await this.txs.createTx(request, options);
    let tx = created.tx!;
    // More than once only if a reorg takes a transaction out of a final state between the end of the watch and the look.
    while (!isFinal(tx.state)) {
      for await (const _ of this.watch(watchTx(tx.txId), options)) {
        // What is of interest comes at the end.
      }
      const got = await this.txs.getTx({ key: { case: "txId", value: tx.txId } }, options);
      tx = got.tx!;
    }
    return tx;
  }

  /**
   * Delivers what the request asks for: every event once and in order per transaction, over as many streams as it takes. When a stream breaks, or says nothing for
   * three heartbeats, it is resumed where it was, on whichever node answers.
   *
   * A message with a resumeToken is a place to go on from: put it into the request of another watch, also in another process, to get what comes after that
   * message. Heartbeats are delivered too; they move the token of a quiet watch on.
   *
   * A watch of a submitter, or of all, begins with snapshots of what is not final, which are delivered once they are complete; the heartbeat after them brings
   * the first token. Events that a snapshot shows already are left out. So does a watch of several transactions (txs), whose snapshots show what is final too.
   *
   * It ends with the final event, of several once all are final, if the request says untilFinal, and when the loop over it is left. It throws the reason of the signal when that ends it, and a
   * FencepostError when the client is closed, when the node refuses the request, when no stream could be had for patienceMs, or with RESUME_TOKEN_EXPIRED when the ledger does not hold
   * what comes next any more: only the caller can know what to make of that.
   */
  watch(request: MessageInitShape<typeof WatchTxRequestSchema>, options: WaitOptions = {}): AsyncGenerator<WatchTxResponse, void, undefined> {
    return watch(this.txs, request, this.#limits, this.#ending, options.signal);
  }
}

/** Asks for the events of one transaction, to its final one. */
export function watchTx(txId: string): MessageInitShape<typeof WatchTxRequestSchema> {
  return { target: { case: "txId", value: txId }, untilFinal: true };
}

/** Asks for the events of several transactions, 100 at most, until all are final. Each is first shown as it is (snapshots), the newest first. */
export function watchTxs(...txIds: string[]): MessageInitShape<typeof WatchTxRequestSchema> {
  return { target: { case: "txs", value: { txIds } }, untilFinal: true };
}

/** Tells whether a state is an end: CONFIRMED, FAILED_FINAL or CANCELLED. */
export function isFinal(state: TxState): boolean {
  return state === TxState.CONFIRMED || state === TxState.FAILED_FINAL || state === TxState.CANCELLED;
}
