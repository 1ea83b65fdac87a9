/** The entry for Node.js: gRPC over HTTP/2. */
import type { SecureContextOptions } from "node:tls";
import { createGrpcTransport, Http2SessionManager } from "@connectrpc/connect-node";
import { Client, type ClientOptions } from "./client.js";

export * from "./index.js";

/** Says who the node must be, and who the client is. Certificates and keys are in PEM form. */
export interface TlsOptions {
  /** The certificates to trust; those of Node.js if it is left out. */
  readonly ca?: string | Uint8Array;
  /** Proves, with key, who the client is, for nodes that ask. */
  readonly certificate?: string | Uint8Array;
  readonly key?: string | Uint8Array;
  /** The name that the node's certificate must bear; the host of the target if it is left out. */
  readonly serverName?: string;
}

export interface ConnectOptions extends ClientOptions {
  /** Encrypts the connection; plain text if it is left out. A token needs it. */
  readonly tls?: TlsOptions;
}

/** Makes a client for a target: "host:port" of a node or a load balancer. Nothing is dialled before the first call. It throws when target or options are wrong. */
export function connect(target: string, options: ConnectOptions = {}): Client {
  if (options.token !== undefined && options.tls === undefined) {
    throw new Error("a token over plain text is there for all to read; give tls as well");
  }
  if (!/^(\[[0-9a-f:.%]+\]|[^\s:/?#@[\]]+):\d{1,5}$/i.test(target)) {
    throw new Error(`target "${target}" is not an address; give host:port alone, "127.0.0.1:9090" or "[::1]:9090" for example`);
  }
  const baseUrl = `${options.tls === undefined ? "http" : "https"}://${target}`;
  // A node that vanished while nothing was said is found out by pings.
  const sessions = new Http2SessionManager(baseUrl, { pingIntervalMs: 20_000, pingTimeoutMs: 10_000 }, sessionOptions(options.tls));
  return new Client(createGrpcTransport({ baseUrl, sessionManager: sessions }), options, () => sessions.abort());
}

function sessionOptions(tls: TlsOptions | undefined): SecureContextOptions & { servername?: string } {
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
