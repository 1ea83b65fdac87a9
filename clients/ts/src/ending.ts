import { Code, ConnectError } from "@connectrpc/connect";
import { FencepostError } from "./errors.js";

/** A signal that lasts as long as a call does. */
export interface Lasting {
  readonly signal: AbortSignal;
  /** Lets go of what could end it. */
  release(): void;
}

/**
 * Notes why there was no answer until the time of a signal ran out, as the cause of its reason, which is what is thrown. A reason that the caller made is left as it is.
 */
export function explain(signal: AbortSignal, before: FencepostError | undefined): void {
  const reason: unknown = signal.reason;
  if (before !== undefined && reason instanceof DOMException && reason.name === "TimeoutError" && !("cause" in reason)) {
    Object.defineProperty(reason, "cause", { value: before, configurable: true, writable: true });
  }
}

/** The end of a client, and of whatever it is asked for. It is no AbortSignal: Node.js warns of more than ten that listen to one. */
export class Ending {
  #reason: FencepostError | undefined;
  readonly #underWay = new Set<AbortController>();

  /** Ends what is under way, and refuses what comes later. */
  end(): void {
    this.#reason ??= new FencepostError(new ConnectError("the client is closed; connect another one", Code.Canceled), true);
    for (const controller of this.#underWay) {
      controller.abort(this.#reason);
    }
    this.#underWay.clear();
  }

  throwIfEnded(): void {
    if (this.#reason !== undefined) {
      throw this.#reason;
    }
  }

  /** A signal for one call: it ends with the client, and with the signal of the caller. */
  join(signal: AbortSignal | undefined): Lasting {
    this.throwIfEnded();
    const controller = new AbortController();
    const abort = () => {
      this.#underWay.delete(controller);
      controller.abort(signal?.reason);
    };
    this.#underWay.add(controller);
    signal?.addEventListener("abort", abort, { once: true });
    if (signal?.aborted === true) {
      abort();
    }
    return {
      signal: controller.signal,
      release: () => {
        signal?.removeEventListener("abort", abort);
        this.#underWay.delete(controller);
      },
    };
  }
}
