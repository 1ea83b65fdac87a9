/** The entry for Node.js: gRPC over HTTP/2. */
import type { SecureContextOptions } from "node:tls";
import { createGrpcTransport, Http2SessionManager } from "@connectrpc/connect-node";
import { Client, type ClientOptions } from "./client.js";

export * from "./index.js";

/** Authenticates the node, and optionally the client. Certificates and keys are in PEM form. */
export interface TlsOptions {
  /** The trusted certificates; default: the ones of Node.js. */
  readonly ca?: string | Uint8Array;
  /** Authenticates the client, together with key, for nodes that require it. */
  readonly certificate?: string | Uint8Array;
  readonly key?: string | Uint8Array;
  /** The name required in the node's certificate; default: the host of the target. */
  readonly serverName?: string;
}

export interface ConnectOptions extends ClientOptions {
  /** Encrypts the connection; default: plain text. A token requires it. */
  readonly tls?: TlsOptions;
}

/**
 * Returns a client for a target: "host:port" of a node or load balancer. It throws if target or
 * options are invalid, and does not dial before the first call.
 */
export function connect(target: string, options: ConnectOptions = {}): Client {
  if (options.token !== undefined && options.tls === undefined) {
    throw new Error("a token must not be sent over plain text; set tls");
  }
  if (!/^(\[[0-9a-f:.%]+\]|[^\s:/?#@[\]]+):\d{1,5}$/i.test(target)) {
    throw new Error(
      `invalid target "${target}"; use host:port, such as "127.0.0.1:9090" or "[::1]:9090"`,
    );
  }
  const baseUrl = `${options.tls === undefined ? "http" : "https"}://${target}`;
  // Pings detect a node that vanished silently.
  const sessions = new Http2SessionManager(
    baseUrl,
    { pingIntervalMs: 20_000, pingTimeoutMs: 10_000 },
    sessionOptions(options.tls),
  );
  return new Client(createGrpcTransport({ baseUrl, sessionManager: sessions }), options, () =>
    sessions.abort(),
  );
}

function sessionOptions(
  tls: TlsOptions | undefined,
): SecureContextOptions & { servername?: string } {
  return {
    minVersion: "TLSv1.2",
    ...(tls?.ca !== undefined && { ca: text(tls.ca) }),
    ...(tls?.certificate !== undefined && { cert: text(tls.certificate) }),
    ...(tls?.key !== undefined && { key: text(tls.key) }),
    ...(tls?.serverName !== undefined && { servername: tls.serverName }),
  };
}

function text(pem: string | Uint8Array): string {
  return typeof pem === "string" ? pem : new TextDecoder().decode(pem);
}
