import { BinaryReader, WireType } from "@bufbuild/protobuf/wire";
import { Code, ConnectError } from "@connectrpc/connect";
import { ErrorReason } from "@fencepost/client-gen/fencepost/v1/errors";
import type { BatchCreateTxResult } from "@fencepost/client-gen/fencepost/v1/tx";

/** The domain of Fencepost's reasons in google.rpc.ErrorInfo. */
const errorDomain = "fencepost.dev";

/** One invalid field of a request. */
export interface Violation {
  /** Path in the request, for example "payload.to". */
  readonly field: string;
  /** The rule it breaks. */
  readonly description: string;
}

/** The error of a failed call. Its cause is the original ConnectError. */
export class FencepostError extends Error {
  override readonly name = "FencepostError";
  /** The gRPC code. */
  readonly code: Code;
  /**
   * The exact reason. UNSPECIFIED if the error does not come from a node (no connection, a
   * deadline, a proxy), or the client is too old to know it.
   */
  readonly reason: ErrorReason;
  /**
   * The reason as sent by the node, such as "SUBMITTER_PAUSED"; empty if the error does not come
   * from a node.
   */
  readonly reasonName: string;
  /** The minimum delay before a retry, in milliseconds; 0 if the node sent none. */
  readonly retryAfterMs: number;
  /** Identifies the call in the node's log; set only for a defect of the node. */
  readonly requestId: string;
  /** The invalid fields of the request. */
  readonly violations: readonly Violation[];

  /** The client made the error: nothing was sent, or the caller ended the call. */
  readonly #own: boolean;

  constructor(cause: ConnectError, own = false) {
    const details = detailsOf(cause);
    const code = details.lost ? Code.Unavailable : cause.code;
    super(`${Code[code]}${details.reasonName && ` (${details.reasonName})`}: ${cause.rawMessage}`, {
      cause,
    });
    this.code = code;
    this.reason =
      ErrorReason[details.reasonName as keyof typeof ErrorReason] ?? ErrorReason.UNSPECIFIED;
    this.reasonName = details.reasonName;
    this.retryAfterMs = details.retryAfterMs;
    this.requestId = details.requestId;
    this.violations = details.violations;
    this.#own = own;
  }

  /**
   * Whether a watch can resume after the error, as Client.watch does: the node is unavailable or
   * overloaded, or the connection was lost. Other errors from a node are final. So are errors from
   * the client itself: it is closed, the caller's signal ended the call, or the request cannot be
   * encoded.
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

  /** Converts anything thrown by a transport, or the error in a batch result. */
  static from(reason: unknown): FencepostError {
    if (reason instanceof FencepostError) {
      return reason;
    }
    return new FencepostError(isStatus(reason) ? thrown(reason) : ConnectError.from(reason));
  }
}

type Status = Extract<BatchCreateTxResult["result"], { case: "error" }>["value"];

function isStatus(reason: unknown): reason is Status {
  return (
    typeof reason === "object" &&
    reason !== null &&
    "$typeName" in reason &&
    reason.$typeName === "google.rpc.Status"
  );
}

/** A status as a call would throw it. */
function thrown(status: Status): ConnectError {
  const error = new ConnectError(status.message, status.code);
  for (const { typeUrl, value } of status.details) {
    error.details.push({ type: typeUrl.slice(typeUrl.lastIndexOf("/") + 1), value });
  }
  return error;
}

/** The content of the google.rpc messages of an error. */
interface Details {
  reasonName: string;
  retryAfterMs: number;
  requestId: string;
  violations: Violation[];
  /** The connection broke during the call: UNAVAILABLE in the other clients. */
  lost: boolean;
}

function detailsOf(error: ConnectError): Details {
  const details: Details = {
    reasonName: "",
    retryAfterMs: 0,
    requestId: "",
    violations: [],
    lost: false,
  };
  for (const detail of error.details) {
    if (!("type" in detail)) {
      continue;
    }
    const fields = read(detail.value);
    switch (detail.type) {
      case "google.rpc.ErrorInfo":
        if (text(fields, 2) === errorDomain) {
          details.reasonName = text(fields, 1);
        }
        break;
      case "google.rpc.RetryInfo":
        details.retryAfterMs = milliseconds(fields.get(1)?.[0]);
        break;
      case "google.rpc.RequestInfo":
        details.requestId = text(fields, 1);
        break;
      case "google.rpc.BadRequest":
        for (const violation of fields.get(1) ?? []) {
          const parts = read(violation as Uint8Array);
          details.violations.push({ field: text(parts, 1), description: text(parts, 2) });
        }
        break;
    }
  }
  details.lost = details.reasonName === "" && isLost(error);
  return details;
}

/**
 * Transports report a broken connection in several ways: an error of Node.js, of fetch, or a stream
 * without an end.
 */
function isLost(error: ConnectError): boolean {
  const { cause } = error;
  const named =
    typeof cause === "object" && cause !== null && ("code" in cause || cause instanceof TypeError);
  return (
    error.code === Code.Aborted ||
    (named && (error.code === Code.Internal || error.code === Code.Unknown))
  );
}

// The four messages are small and stable; reading them by field number needs neither generated code
// nor a dependency.

type Fields = Map<number, (Uint8Array | number)[]>;

/** The fields of a message: bytes for length-delimited ones, numbers for varints. */
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

/** Reads a google.protobuf.Duration. */
function milliseconds(duration: Uint8Array | number | undefined): number {
  if (!(duration instanceof Uint8Array)) {
    return 0;
  }
  const fields = read(duration);
  const [seconds, nanos] = [fields.get(1)?.[0] ?? 0, fields.get(2)?.[0] ?? 0];
  return Math.max(0, Number(seconds) * 1000 + Number(nanos) / 1e6);
}
