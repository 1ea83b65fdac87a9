import { create, type DescMessage, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import { Code, ConnectError, type Transport } from "@connectrpc/connect";
import { type Ending, explain, type Lasting } from "./ending.js";
import { FencepostError } from "./errors.js";

/** How often a call is made in all. */
const maxAttempts = 5;
const firstPauseMs = 200;
const longestPauseMs = 5000;

/**
 * Gives a transport the client's policy: a call is bounded in time, and by the life of the client; one that fails with UNAVAILABLE is repeated with growing pauses, one that fails with
 * RESOURCE_EXHAUSTED only if the node says when; and every error is a FencepostError. A stream is not repeated here: a watch resumes it.
 */
export function patient(transport: Transport, timeoutMs: number, token: string | undefined, ending: Ending): Transport {
  return {
    async unary(method, signal, limitMs = timeoutMs, header, input, contextValues) {
      const deadline = limitMs > 0 ? Date.now() + limitMs : Infinity;
      const whole = ending.join(signal);
      let before: FencepostError | undefined; // why the last attempt failed
      try {
        for (let attempt = 1; ; attempt++) {
          try {
            return await transport.unary(method, whole.signal, left(deadline), authorized(header, token), input, contextValues);
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
      const explain = (reason: unknown) => ended(whole.signal, encodes(method.input, sent) ? reason : unsendable(reason));
      try {
        const response = await transport.stream(method, whole.signal, limitMs === undefined ? undefined : sayable(limitMs), authorized(header, token), noted(input, sent), contextValues);
        return { ...response, message: typedErrors(response.message, whole, explain) };
      } catch (reason) {
        whole.release();
        throw explain(reason);
      }
    },
  };
}

/** The timeout of one attempt; 0 is none. */
function left(deadline: number): number {
  return deadline === Infinity ? 0 : sayable(Math.max(1, deadline - Date.now()));
}

/** The longest time that is waited for, a day and 3:46 hours: gRPC tells a timeout in 8 digits, and a timer of the runtime that holds less than is asked of it ends at once. */
const longestMs = 99_999_999;

/** A timeout as it can be told to a node, in whole milliseconds. */
function sayable(ms: number): number {
  return Math.min(Math.ceil(ms), longestMs);
}

/** Why a call failed: the end of the client, or that the caller's signal ended it, says more than what a transport makes of it. */
function ended(signal: AbortSignal, reason: unknown): FencepostError {
  if (!signal.aborted || signal.reason instanceof FencepostError) {
    return FencepostError.from(signal.aborted ? signal.reason : reason);
  }
  return new FencepostError(new ConnectError("the signal of the caller ended the call", Code.Canceled, undefined, undefined, signal.reason), true);
}

/**
 * A node that ends a call at its deadline resets the stream, and that may be heard before our own timer is. A millisecond or two can be lost on the way: the
 * deadline is sent in whole ones.
 */
function inTime(reason: unknown, deadline: number, signal: AbortSignal): FencepostError {
  const error = FencepostError.from(reason);
  if (error.code !== Code.Canceled || signal.aborted || Date.now() + 5 < deadline) {
    return error;
  }
  return new FencepostError(new ConnectError("the call was not answered in time", Code.DeadlineExceeded, undefined, undefined, error));
}

/** A timeout says nothing of the attempt before, which does say why there was no answer. */
function afterFailure(error: FencepostError, before: FencepostError | undefined): FencepostError {
  if (before === undefined || error.code !== Code.DeadlineExceeded || error.reasonName !== "") {
    return error;
  }
  const said = error.cause instanceof ConnectError ? error.cause.rawMessage : error.message;
  return new FencepostError(new ConnectError(`${said}; the attempt before failed: ${before.message}`, error.code, undefined, undefined, before));
}

/** How long to wait before the call is repeated; undefined: not at all. */
function pauseAfter(error: FencepostError, attempt: number): number | undefined {
  if (error.code === Code.Unavailable) {
    return jittered(Math.min(firstPauseMs * 3 ** (attempt - 1), longestPauseMs));
  }
  return error.code === Code.ResourceExhausted && error.retryAfterMs > 0 ? error.retryAfterMs : undefined;
}

/** Half of it to all of it: of many clients that lose a node not all shall come back at once. */
export function jittered(pauseMs: number): number {
  return pauseMs * (0.5 + Math.random() / 2);
}

/** Waits, and throws the reason of the signal when that ends the wait. */
export async function sleep(ms: number, signal: AbortSignal): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    const abort = () => {
      clearTimeout(timer);
      reject(signal.reason);
    };
    const timer = setTimeout(() => {
      signal.removeEventListener("abort", abort);
      resolve();
    }, Math.min(ms, longestMs));
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

/** Passes on what is sent, and notes it: a stream of the contract has one request. */
async function* noted<T>(messages: AsyncIterable<T>, sent: T[]): AsyncGenerator<T> {
  for await (const message of messages) {
    sent.push(message);
    yield message;
  }
}

/** Tells whether requests can be sent at all. It is asked only when a call failed: Connect has the same code for this and for a lost connection. */
function encodes<I extends DescMessage>(schema: I, requests: readonly MessageInitShape<I>[]): boolean {
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

async function* typedErrors<T>(messages: AsyncIterable<T>, whole: Lasting, explain: (reason: unknown) => FencepostError): AsyncGenerator<T> {
  try {
    yield* messages;
  } catch (reason) {
    throw explain(reason);
  } finally {
    whole.release();
  }
}
