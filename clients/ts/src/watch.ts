import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { durationFromMs, durationMs } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError, type Client as Stub } from "@connectrpc/connect";
import { type TxService, type WatchTxRequest, WatchTxRequestSchema, type WatchTxResponse } from "@fencepost/client-gen/fencepost/v1/tx";
import { type Ending, explain } from "./ending.js";
import { FencepostError } from "./errors.js";
import { jittered, sleep } from "./retry.js";

const firstPauseMs = 100; // before a stream is resumed; doubles up to longestPauseMs
const longestPauseMs = 5000;
const longestWaitMs = 60_000; // that a node can ask for
const silences = 3; // heartbeats that fail to come before a stream is taken for dead
// What a node grants. It refuses a request for another heartbeat; the stream must live until that is heard.
const [shortestHeartbeatMs, longestHeartbeatMs] = [1000, 300_000];
const maxHeld = 1_000_000; // snapshots that wait for the first resume token

export interface WatchLimits {
  readonly heartbeatMs: number;
  readonly patienceMs: number;
}

/** See Client.watch. */
export async function* watch(
  txs: Stub<typeof TxService>,
  init: MessageInitShape<typeof WatchTxRequestSchema>,
  limits: WatchLimits,
  ending: Ending,
  signal: AbortSignal | undefined,
): AsyncGenerator<WatchTxResponse, void, undefined> {
  const whole = ending.join(signal);
  try {
    yield* watchUntil(whole.signal, txs, init, limits);
  } finally {
    whole.release();
  }
}

/** Reads stream after stream until the watch is over. Nothing is delivered after the signal. */
async function* watchUntil(
  signal: AbortSignal,
  txs: Stub<typeof TxService>,
  init: MessageInitShape<typeof WatchTxRequestSchema>,
  limits: WatchLimits,
): AsyncGenerator<WatchTxResponse, void, undefined> {
  const request = create(WatchTxRequestSchema, init);
  request.heartbeat ??= durationFromMs(limits.heartbeatMs);
  const place = new Place(request.resumeToken);
  let [lostAt, pause] = [0, firstPauseMs]; // when the last stream that said something was lost; 0 while one lives
  let broken: FencepostError | undefined; // why it was; undefined while one lives
  for (;;) {
    try {
      place.rewind();
      for await (const message of stream(txs, { ...request, resumeToken: place.token }, signal)) {
        [lostAt, pause, broken] = [0, firstPauseMs, undefined];
        for (const ready of place.take(message)) {
          signal.throwIfAborted();
          yield ready;
        }
        signal.throwIfAborted();
      }
      if (request.untilFinal) {
        return;
      }
      broken = new FencepostError(new ConnectError("the stream ended", Code.Unavailable));
    } catch (reason) {
      explain(signal, broken);
      signal.throwIfAborted();
      if (!(reason instanceof FencepostError) || !reason.resumable) {
        throw reason;
      }
      broken = reason;
    }
    lostAt ||= Date.now();
    if (Date.now() - lostAt > limits.patienceMs) {
      throw broken;
    }
    const wait = Math.max(jittered(pause), Math.min(broken.retryAfterMs, longestWaitMs));
    await sleep(wait, signal).finally(() => explain(signal, broken));
    pause = Math.min(2 * pause, longestPauseMs);
  }
}

/** Reads one stream to its end, or until it has been silent for too long. */
async function* stream(txs: Stub<typeof TxService>, request: WatchTxRequest, signal: AbortSignal): AsyncGenerator<WatchTxResponse> {
  const quietMs = silences * Math.min(Math.max(durationMs(request.heartbeat!), shortestHeartbeatMs), longestHeartbeatMs);
  const ending = new AbortController();
  const abort = () => ending.abort(signal.reason);
  signal.addEventListener("abort", abort, { once: true });
  if (signal.aborted) {
    abort();
  }
  let silent = false;
  try {
    const messages = txs.watchTx(request, { signal: ending.signal, timeoutMs: 0 })[Symbol.asyncIterator]();
    for (;;) {
      // It runs only while a message is waited for: how long the caller takes is no fault of the node.
      const timer = setTimeout(() => {
        silent = true;
        ending.abort();
      }, quietMs);
      const next = await messages.next().finally(() => clearTimeout(timer));
      if (next.done === true) {
        return;
      }
      yield next.value;
    }
  } catch (reason) {
    throw silent ? new FencepostError(new ConnectError(`the stream was silent for ${quietMs} ms`, Code.Unavailable)) : reason;
  } finally {
    signal.removeEventListener("abort", abort);
    ending.abort();
  }
}

/** Where a watch stands, and what it must remember to repeat nothing. */
class Place {
  /** Snapshots before the first token: if the stream breaks there, it begins anew, and they are sent again. */
  private held: WatchTxResponse[] = [];
  /** Versions that snapshots showed of transactions, until an event goes beyond. */
  private readonly shown = new Map<string, bigint>();

  constructor(public token: string) {}

  /** Forgets what a new stream tells again. */
  rewind(): void {
    this.held = [];
  }

  /** What can be delivered now. */
  take(message: WatchTxResponse): WatchTxResponse[] {
    if (message.resumeToken === "" && this.token === "") {
      if (this.held.push(message) > maxHeld) {
        throw new Error(`more than ${maxHeld} transactions are not final; watch single submitters`);
      }
      return [];
    }
    const ready = this.held;
    this.held = [];
    for (const { message: held } of ready) {
      if (held.case === "snapshot") {
        this.shown.set(held.value.txId, BigInt(held.value.version));
      }
    }
    this.token = message.resumeToken || this.token;
    if (message.message.case === "event") {
      const { txId, seq } = message.message.value;
      if (BigInt(seq) <= (this.shown.get(txId) ?? 0n)) {
        return ready;
      }
      this.shown.delete(txId);
    }
    ready.push(message);
    return ready;
  }
}
