import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { durationFromMs, durationMs } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError, type Client as Stub } from "@connectrpc/connect";
import {
  type TxService,
  type WatchTxRequest,
  WatchTxRequestSchema,
  type WatchTxResponse,
} from "@fencepost/client-gen/fencepost/v1/tx";
import { type Ending, explain } from "./ending.js";
import { FencepostError } from "./errors.js";
import { jittered, sleep } from "./retry.js";

const firstPauseMs = 100; // before a stream is resumed; doubles up to longestPauseMs
const longestPauseMs = 5000;
const longestWaitMs = 60_000; // limit for a node's retry delay
const silences = 3; // missed heartbeats before a stream counts as dead
// Limits enforced by nodes. A node rejects other heartbeats; the stream must live until the
// rejection arrives.
const [shortestHeartbeatMs, longestHeartbeatMs] = [1000, 300_000];
const maxHeld = 1_000_000; // snapshots held until the first resume token

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

/** Reads streams until the watch ends. Nothing is delivered after the signal. */
async function* watchUntil(
  signal: AbortSignal,
  txs: Stub<typeof TxService>,
  init: MessageInitShape<typeof WatchTxRequestSchema>,
  limits: WatchLimits,
): AsyncGenerator<WatchTxResponse, void, undefined> {
  const request = create(WatchTxRequestSchema, init);
  request.heartbeat ??= durationFromMs(limits.heartbeatMs);
  const position = new Position(request.resumeToken);
  let [lostAt, pause] = [0, firstPauseMs]; // when the last stream was lost; 0 while one is live
  let broken: FencepostError | undefined; // its error; undefined while one is live
  for (;;) {
    try {
      position.rewind();
      for await (const message of stream(
        txs,
        { ...request, resumeToken: position.token },
        signal,
      )) {
        [lostAt, pause, broken] = [0, firstPauseMs, undefined];
        for (const ready of position.take(message)) {
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

/** Reads one stream until it ends or is silent for too long. */
async function* stream(
  txs: Stub<typeof TxService>,
  request: WatchTxRequest,
  signal: AbortSignal,
): AsyncGenerator<WatchTxResponse> {
  const quietMs =
    silences *
    Math.min(Math.max(durationMs(request.heartbeat!), shortestHeartbeatMs), longestHeartbeatMs);
  const ending = new AbortController();
  const abort = () => ending.abort(signal.reason);
  signal.addEventListener("abort", abort, { once: true });
  if (signal.aborted) {
    abort();
  }
  let silent = false;
  try {
    const messages = txs
      .watchTx(request, { signal: ending.signal, timeoutMs: 0 })
      [Symbol.asyncIterator]();
    for (;;) {
      // It runs only while waiting for a message: a slow caller is not a fault of the node.
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
    throw silent
      ? new FencepostError(
          new ConnectError(`the stream was silent for ${quietMs} ms`, Code.Unavailable),
        )
      : reason;
  } finally {
    signal.removeEventListener("abort", abort);
    ending.abort();
  }
}

/** The resume token of a watch, and the state needed to repeat nothing. */
class Position {
  /** Snapshots before the first token; a new stream repeats them. */
  private held: WatchTxResponse[] = [];
  /** Versions shown by snapshots, until a later event. */
  private readonly shown = new Map<string, bigint>();

  constructor(public token: string) {}

  /** Drops the snapshots that a new stream repeats. */
  rewind(): void {
    this.held = [];
  }

  /** Returns the messages that can be delivered. */
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
