import { Code, ConnectError } from "@connectrpc/connect";
import { FencepostError } from "./errors.js";

/** A signal with the lifetime of a call. */
export interface Lasting {
  readonly signal: AbortSignal;
  /** Detaches the signal from its sources. */
  release(): void;
}

/**
 * Records why a call had no response when a signal timed out, as the cause of its reason, which is
 * thrown. A reason set by the caller is left unchanged.
 */
export function explain(signal: AbortSignal, before: FencepostError | undefined): void {
  const reason: unknown = signal.reason;
  if (
    before !== undefined &&
    reason instanceof DOMException &&
    reason.name === "TimeoutError" &&
    !("cause" in reason)
  ) {
    Object.defineProperty(reason, "cause", { value: before, configurable: true, writable: true });
  }
}

/**
 * The end of a client and its calls. It is not an AbortSignal, because Node.js warns about more
 * than ten listeners on one.
 */
export class Ending {
  #reason: FencepostError | undefined;
  readonly #underWay = new Set<AbortController>();

  /** Ends pending calls, and rejects later ones. */
  end(): void {
    this.#reason ??= new FencepostError(
      new ConnectError("the client is closed; connect another one", Code.Canceled),
      true,
    );
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

  /** Returns a signal for one call that ends with the client and with the caller's signal. */
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
