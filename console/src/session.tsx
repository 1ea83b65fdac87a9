import { createGrpcWebTransport } from "@connectrpc/connect-web";
import { Client, Code, FencepostError, type GetStatusResponse } from "@fencepost/client/web";
import { createContext, useContext } from "react";

/** The connection of a user: the client with its token, and the rights of its caller. */
export interface Session {
  readonly client: Client;
  readonly status: GetStatusResponse;
  /** Ends the session, because the node no longer accepts its credentials or the user signs out. */
  readonly end: (why: "expired" | "signed out") => void;
  /** The name that decisions record, if the user gave one. */
  readonly operator: string;
  readonly setOperator: (name: string) => void;
}

const SessionContext = createContext<Session | undefined>(undefined);

export const SessionProvider = SessionContext.Provider;

export function useSession(): Session {
  const session = useContext(SessionContext);
  if (session === undefined) {
    throw new Error("no session");
  }
  return session;
}

const callTimeoutMs = 45_000; // longer than a node waits for the owner of an account by default
const patienceMs = 24 * 3600_000; // a watch reconnects for as long as the page is open

export function clientWith(token: string): Client {
  const options = { timeoutMs: callTimeoutMs, patienceMs, heartbeatMs: 5000 };
  return new Client(
    createGrpcWebTransport({ baseUrl: location.origin }),
    token === "" ? options : { ...options, token },
  );
}

// The token lives as long as the tab, and no longer: other tabs and later sessions do not see it.
const tokenKey = "fencepost.token";
const operatorKey = "fencepost.operator";

export const storedToken = (): string => sessionStorage.getItem(tokenKey) ?? "";
export const storeToken = (token: string): void => store(tokenKey, token);
export const storedOperator = (): string => sessionStorage.getItem(operatorKey) ?? "";
export const storeOperator = (name: string): void => store(operatorKey, name);

function store(key: string, value: string): void {
  if (value === "") {
    sessionStorage.removeItem(key);
  } else {
    sessionStorage.setItem(key, value);
  }
}

export function isUnauthenticated(error: unknown): boolean {
  return error instanceof FencepostError && error.code === Code.Unauthenticated;
}
