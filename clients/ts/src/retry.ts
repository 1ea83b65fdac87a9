import { create, type DescMessage, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import { Code, ConnectError, type Transport } from "@connectrpc/connect";
import { type Ending, explain, type Lasting } from "./ending.js";
import { FencepostError } from "./errors.js";

/** Limits the attempts of a call. */
const maxAttempts = 5;
const firstPauseMs = 200;
const longestPauseMs = 5000;

/**
 * Adds the client's policy to a transport. A call is limited by its timeout and the life of the
 * client. UNAVAILABLE is retried with growing delays, RESOURCE_EXHAUSTED only if the node sends a
 * delay. Every error becomes a FencepostError. Streams are not retried: a watch resumes them.
 */
export function patient(
  transport: Transport,
  timeoutMs: number,
  token: string | undefined,
  ending: Ending,
): Transport {
  return {
    async unary(method, signal, limitMs = timeoutMs, header, input, contextValues) {
      const deadline = limitMs > 0 ? Date.now() + limitMs : Infinity;
      const whole = ending.join(signal);
      let before: FencepostError | undefined; // why the last attempt failed
      try {
        for (let attempt = 1; ; attempt++) {
          try {
            return await transport.unary(
              method,
              whole.signal,
              left(deadline),
              authorized(header, token),
              input,
              contextValues,
            );
          } catch (reason) {
            const error = afterFailure(inTime(reason, deadline, whole.signal), before);
            const pause = pauseAfter(error, attempt);
            if (pause === undefined || attempt === maxAttempts || Date.now() + pause >= deadline) {
              throw error;
            }
            before = error;
            await sleep(pause, whole.signal);
          }
        }
      } catch (reason) {
        explain(whole.signal, before);
        throw ended(whole.signal, encodes(method.input, [input]) ? reason : unsendable(reason));
      } finally {
        whole.release();
      }
    },
    async stream(method, signal, limitMs, header, input, contextValues) {
      const whole = ending.join(signal);
      const sent: MessageInitShape<typeof method.input>[] = [];
      const explain = (reason: unknown) =>
        ended(whole.signal, encodes(method.input, sent) ? reason : unsendable(reason));
      try {
        const response = await transport.stream(
          method,
          whole.signal,
          limitMs === undefined ? undefined : sendable(limitMs),
          authorized(header, token),
          noted(input, sent),
          contextValues,
        );
        return { ...response, message: typedErrors(response.message, whole, explain) };
      } catch (reason) {
        whole.release();
        throw explain(reason);
      }
    },
  };
}

/** The timeout of one attempt; 0 means none. */
function left(deadline: number): number {
  return deadline === Infinity ? 0 : sendable(Math.max(1, deadline - Date.now()));
}

/**
 * The longest wait, almost 28 hours: a gRPC timeout has 8 digits, and a longer timer of the runtime
 * fires immediately.
 */
const longestMs = 99_999_999;

/** Rounds a timeout to whole milliseconds, as gRPC sends it. */
function sendable(ms: number): number {
  return Math.min(Math.ceil(ms), longestMs);
}

/**
 * Converts the error of a call. The end of the client or of the caller's signal is more useful than
 * the error of the transport.
 */
function ended(signal: AbortSignal, reason: unknown): FencepostError {
  if (!signal.aborted || signal.reason instanceof FencepostError) {
    return FencepostError.from(signal.aborted ? signal.reason : reason);
  }
  return new FencepostError(
    new ConnectError(
      "the caller's signal ended the call",
      Code.Canceled,
      undefined,
      undefined,
      signal.reason,
    ),
    true,
  );
}

/**
 * A node that ends a call at its deadline resets the stream, which may arrive before our timer
 * fires. The deadline is sent in whole milliseconds, so allow a few.
 */
function inTime(reason: unknown, deadline: number, signal: AbortSignal): FencepostError {
  const error = FencepostError.from(reason);
  if (error.code !== Code.Canceled || signal.aborted || Date.now() + 5 < deadline) {
    return error;
  }
  return new FencepostError(
    new ConnectError(
      "the call had no response in time",
      Code.DeadlineExceeded,
      undefined,
      undefined,
      error,
    ),
  );
}

/** Adds the error of the previous attempt to a timeout. */
function afterFailure(error: FencepostError, before: FencepostError | undefined): FencepostError {
  if (before === undefined || error.code !== Code.DeadlineExceeded || error.reasonName !== "") {
    return error;
  }
  const text = error.cause instanceof ConnectError ? error.cause.rawMessage : error.message;
  return new FencepostError(
    new ConnectError(
      `${text}; the previous attempt failed: ${before.message}`,
      error.code,
      undefined,
      undefined,
      before,
    ),
  );
}

/** The delay before a retry; undefined: no retry. */
function pauseAfter(error: FencepostError, attempt: number): number | undefined {
  if (error.code === Code.Unavailable) {
    return jittered(Math.min(firstPauseMs * 3 ** (attempt - 1), longestPauseMs));
  }
  return error.code === Code.ResourceExhausted && error.retryAfterMs > 0
    ? error.retryAfterMs
    : undefined;
}

/** Returns 50 to 100 % of a delay: clients that lose a node must not all return at once. */
export function jittered(pauseMs: number): number {
  return pauseMs * (0.5 + Math.random() / 2);
}

/** Waits; throws the reason of the signal if that ends the wait. */
export async function sleep(ms: number, signal: AbortSignal): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    const abort = () => {
      clearTimeout(timer);
      reject(signal.reason);
    };
    const timer = setTimeout(
      () => {
        signal.removeEventListener("abort", abort);
        resolve();
      },
      Math.min(ms, longestMs),
    );
    signal.addEventListener("abort", abort, { once: true });
    if (signal.aborted) {
      abort();
    }
  });
}

function authorized(header: HeadersInit | undefined, token: string | undefined): Headers {
  const all = new Headers(header);
  if (token !== undefined) {
    all.set("authorization", `Bearer ${token}`);
  }
  return all;
}

/** Forwards and records the messages sent: a stream of the contract has one request. */
async function* noted<T>(messages: AsyncIterable<T>, sent: T[]): AsyncGenerator<T> {
  for await (const message of messages) {
    sent.push(message);
    yield message;
  }
}

/**
 * Reports whether requests can be encoded. Used only after a failure, because Connect has the same
 * code for this and for a lost connection.
 */
function encodes<I extends DescMessage>(
  schema: I,
  requests: readonly MessageInitShape<I>[],
): boolean {
  try {
    requests.forEach((request) => toBinary(schema, create(schema, request)));
    return true;
  } catch {
    return false;
  }
}

function unsendable(reason: unknown): FencepostError {
  return reason instanceof FencepostError && reason.cause instanceof ConnectError
    ? new FencepostError(reason.cause, true)
    : new FencepostError(ConnectError.from(reason), true);
}

async function* typedErrors<T>(
  messages: AsyncIterable<T>,
  whole: Lasting,
  explain: (reason: unknown) => FencepostError,
): AsyncGenerator<T> {
  try {
    yield* messages;
  } catch (reason) {
    throw explain(reason);
  } finally {
    whole.release();
  }
}
