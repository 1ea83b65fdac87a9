/** The entry for browsers: gRPC-Web over fetch. */
import { createGrpcWebTransport } from "@connectrpc/connect-web";
import { Client, type ClientOptions } from "./client.js";

export * from "./index.js";

/** Makes a client for the origin that a node, or what stands before it, serves gRPC-Web on, "https://fencepost.example" for example. The browser does TLS. */
export function connect(baseUrl: string, options: ClientOptions = {}): Client {
  if (options.token !== undefined && !baseUrl.startsWith("https:")) {
    throw new Error("a token over plain text is there for all to read; use an https origin");
  }
  return new Client(createGrpcWebTransport({ baseUrl }), options);
}
