import { Code, ConnectError, type StreamResponse, type Transport } from "@connectrpc/connect";
import type { DescMessage } from "@bufbuild/protobuf";
import { FencepostError } from "./errors.js";

/** How often a call is made in all. */
const maxAttempts = 5;
const firstPauseMs = 200;
const longestPauseMs = 5000;

/**
 * Gives a transport the client's policy: a call is bounded in time; one that fails with UNAVAILABLE is repeated with growing pauses, one that fails with
 * RESOURCE_EXHAUSTED only if the node says when; and every error is a FencepostError. A stream is not repeated here: a watch resumes it.
 */
export function patient(transport: Transport, timeoutMs: number, token: string | undefined): Transport {
  return {
    async unary(method, signal, limitMs = timeoutMs, header, input, contextValues) {
      const deadline = Date.now() + limitMs;
      for (let attempt = 1; ; attempt++) {
        try {
          return await transport.unary(method, signal, Math.max(1, deadline - Date.now()), authorized(header, token), input, contextValues);
        } catch (reason) {
          const error = inTime(reason, deadline, signal);
          const pause = pauseAfter(error, attempt);
          if (pause === undefined || attempt === maxAttempts || Date.now() + pause >= deadline || signal?.aborted === true) {
            throw error;
          }
          await sleep(pause, signal);
        }
      }
    },
    async stream(method, signal, limitMs, header, input, contextValues) {
      try {
        return typed(await transport.stream(method, signal, limitMs, authorized(header, token), input, contextValues));
      } catch (reason) {
        throw FencepostError.from(reason);
      }
    },
  };
}

/**
 * A node that ends a call at its deadline resets the stream, and that may be heard before our own timer is. A millisecond or two can be lost on the way: the
 * deadline is sent in whole ones.
 */
function inTime(reason: unknown, deadline: number, signal: AbortSignal | undefined): FencepostError {
  const error = FencepostError.from(reason);
  if (error.code !== Code.Canceled || signal?.aborted === true || Date.now() + 5 < deadline) {
    return error;
  }
  return new FencepostError(new ConnectError("the call was not answered in time", Code.DeadlineExceeded, undefined, undefined, error));
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
export async function sleep(ms: number, signal: AbortSignal | undefined): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    const abort = () => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", abort);
      resolve();
    }, ms);
    signal?.addEventListener("abort", abort, { once: true });
    if (signal?.aborted === true) {
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

function typed<I extends DescMessage, O extends DescMessage>(response: StreamResponse<I, O>): StreamResponse<I, O> {
  return { ...response, message: typedErrors(response.message) };
}

async function* typedErrors<T>(messages: AsyncIterable<T>): AsyncGenerator<T> {
  try {
    yield* messages;
  } catch (reason) {
    throw FencepostError.from(reason);
  }
}
