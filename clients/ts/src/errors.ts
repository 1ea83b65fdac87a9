import { BinaryReader, WireType } from "@bufbuild/protobuf/wire";
import { Code, ConnectError } from "@connectrpc/connect";
import { ErrorReason } from "@fencepost/client-gen/fencepost/v1/errors";
import type { BatchCreateTxResult } from "@fencepost/client-gen/fencepost/v1/tx";

/** Qualifies the reasons of Fencepost in google.rpc.ErrorInfo. */
const errorDomain = "fencepost.dev";

/** One thing that is wrong with a request. */
export interface Violation {
  /** Path in the request, for example "payload.to". */
  readonly field: string;
  /** What must hold. */
  readonly description: string;
}

/** Why a call failed. What it was made from, a ConnectError, is its cause. */
export class FencepostError extends Error {
  override readonly name = "FencepostError";
  /** The class of the error. */
  readonly code: Code;
  /**
   * What exactly. UNSPECIFIED if the error is not a node's (no connection, a deadline, a proxy in between), or this client does not know it.
   */
  readonly reason: ErrorReason;
  /** The reason as the node wrote it, "SUBMITTER_PAUSED" for example; empty if the error is not a node's. */
  readonly reasonName: string;
  /** When to repeat the call at the earliest, in milliseconds; 0 if the node does not say. */
  readonly retryAfterMs: number;
  /** Names the call in the node's log; empty unless the error is a defect of the node. */
  readonly requestId: string;
  /** The fields of the request that are wrong. */
  readonly violations: readonly Violation[];

  /** The client itself made it: nothing went over a connection, or the caller wanted no more. */
  readonly #own: boolean;

  constructor(cause: ConnectError, own = false) {
    const told = detailsOf(cause);
    const code = told.lost ? Code.Unavailable : cause.code;
    super(`${Code[code]}${told.reasonName && ` (${told.reasonName})`}: ${cause.rawMessage}`, { cause });
    this.code = code;
    this.reason = ErrorReason[told.reasonName as keyof typeof ErrorReason] ?? ErrorReason.UNSPECIFIED;
    this.reasonName = told.reasonName;
    this.retryAfterMs = told.retryAfterMs;
    this.requestId = told.requestId;
    this.violations = told.violations;
    this.#own = own;
  }

  /**
   * Whether a watch that fails with it goes on with another stream, as Client.watch does: a node that cannot go on, or has no room now, and whatever the network
   * and what stands in it make of a lost connection. Any other answer of a node is an answer; and what the client says by itself stays so: it is closed, the
   * signal of the caller ended the call, or the request cannot be encoded.
   */
  get resumable(): boolean {
    if (this.#own) {
      return false;
    }
    switch (this.code) {
      case Code.Unavailable:
        return true;
      case Code.ResourceExhausted:
        return this.retryAfterMs > 0;
      case Code.Internal:
      case Code.Unknown:
      case Code.Canceled:
      case Code.Aborted:
        return this.reasonName === "";
      default:
        return false;
    }
  }

  /** Whatever a transport threw, or the error in a result of a batch, as a FencepostError. */
  static from(reason: unknown): FencepostError {
    if (reason instanceof FencepostError) {
      return reason;
    }
    return new FencepostError(isStatus(reason) ? thrown(reason) : ConnectError.from(reason));
  }
}

type Status = Extract<BatchCreateTxResult["result"], { case: "error" }>["value"];

function isStatus(reason: unknown): reason is Status {
  return typeof reason === "object" && reason !== null && "$typeName" in reason && reason.$typeName === "google.rpc.Status";
}

/** A status as a call would have thrown it. */
function thrown(status: Status): ConnectError {
  const error = new ConnectError(status.message, status.code);
  for (const { typeUrl, value } of status.details) {
    error.details.push({ type: typeUrl.slice(typeUrl.lastIndexOf("/") + 1), value });
  }
  return error;
}

/** What the google.rpc messages of an error say. */
interface Told {
  reasonName: string;
  retryAfterMs: number;
  requestId: string;
  violations: Violation[];
  /** The connection broke under the call: UNAVAILABLE in any other client. */
  lost: boolean;
}

function detailsOf(error: ConnectError): Told {
  const told: Told = { reasonName: "", retryAfterMs: 0, requestId: "", violations: [], lost: false };
  for (const detail of error.details) {
    if (!("type" in detail)) {
      continue;
    }
    const fields = read(detail.value);
    switch (detail.type) {
      case "google.rpc.ErrorInfo":
        if (text(fields, 2) === errorDomain) {
          told.reasonName = text(fields, 1);
        }
        break;
      case "google.rpc.RetryInfo":
        told.retryAfterMs = milliseconds(fields.get(1)?.[0]);
        break;
      case "google.rpc.RequestInfo":
        told.requestId = text(fields, 1);
        break;
      case "google.rpc.BadRequest":
        for (const violation of fields.get(1) ?? []) {
          const parts = read(violation as Uint8Array);
          told.violations.push({ field: text(parts, 1), description: text(parts, 2) });
        }
        break;
    }
  }
  told.lost = told.reasonName === "" && isLost(error);
  return told;
}

/** The transports name a connection that broke in several ways: an error of Node.js, of fetch, or a stream without its end. */
function isLost(error: ConnectError): boolean {
  const { cause } = error;
  const named = typeof cause === "object" && cause !== null && ("code" in cause || cause instanceof TypeError);
  return error.code === Code.Aborted || (named && (error.code === Code.Internal || error.code === Code.Unknown));
}

// The four messages are small and will not change; reading them by field number needs no generated code and nothing else to depend on.

type Fields = Map<number, (Uint8Array | number)[]>;

/** The fields of a message: bytes of those that have a length, numbers of those that are varints. */
function read(message: Uint8Array): Fields {
  const reader = new BinaryReader(message);
  const fields: Fields = new Map();
  while (reader.pos < reader.len) {
    const [number, type] = reader.tag();
    const values = fields.get(number) ?? [];
    fields.set(number, values);
    if (type === WireType.LengthDelimited) {
      values.push(reader.bytes());
    } else if (type === WireType.Varint) {
      values.push(Number(reader.int64()));
    } else {
      reader.skip(type, number);
    }
  }
  return fields;
}

function text(fields: Fields, number: number): string {
  const value = fields.get(number)?.[0];
  return value instanceof Uint8Array ? new TextDecoder().decode(value) : "";
}

/** Of a google.protobuf.Duration. */
function milliseconds(duration: Uint8Array | number | undefined): number {
  if (!(duration instanceof Uint8Array)) {
    return 0;
  }
  const fields = read(duration);
  const [seconds, nanos] = [fields.get(1)?.[0] ?? 0, fields.get(2)?.[0] ?? 0];
  return Math.max(0, Number(seconds) * 1000 + Number(nanos) / 1e6);
}
