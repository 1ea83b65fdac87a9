/** The exports shared by both entries: client, errors, and the messages of the contract. */
export { Code, type Transport } from "@connectrpc/connect";
export * from "@fencepost/client-gen/fencepost/v1/errors";
export * from "@fencepost/client-gen/fencepost/v1/nonce";
export * from "@fencepost/client-gen/fencepost/v1/sink";
export * from "@fencepost/client-gen/fencepost/v1/status";
export * from "@fencepost/client-gen/fencepost/v1/submitter";
export * from "@fencepost/client-gen/fencepost/v1/tx";
export * from "./client.js";
export { FencepostError, type Violation } from "./errors.js";
export {
  NeverSigned,
  type NonceContext,
  NonceHandle,
  type NonceHandler,
  type NonceOptions,
  type NonceResult,
} from "./nonce.js";
