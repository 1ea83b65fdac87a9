/** The entry for browsers: gRPC-Web over fetch. */
import { createGrpcWebTransport } from "@connectrpc/connect-web";
import { Client, type ClientOptions } from "./client.js";

export * from "./index.js";

/**
 * Returns a client for the origin that serves gRPC-Web, such as "https://fencepost.example": a node
 * or its proxy. The browser handles TLS.
 */
export function connect(baseUrl: string, options: ClientOptions = {}): Client {
  if (options.token !== undefined && !baseUrl.startsWith("https:")) {
    throw new Error("a token must not be sent over plain text; use an https origin");
  }
  return new Client(createGrpcWebTransport({ baseUrl }), options);
}
