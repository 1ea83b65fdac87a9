import { useEffect, useState } from "react";

/** A place in the console, as written in the hash of the address: "#/accounts/alice?after=x". */
export interface Route {
  /** The first segment; "" is the start page. */
  readonly page: string;
  /** The second segment, decoded; "" if there is none. */
  readonly name: string;
  readonly query: URLSearchParams;
}

export function parseRoute(hash: string): Route {
  const [path = "", query = ""] = hash.replace(/^#\/?/, "").split("?", 2);
  const [page = "", name = ""] = path.split("/");
  let decoded = name;
  try {
    decoded = decodeURIComponent(name);
  } catch {
    // A malformed escape stays as it is; the server reports that the name is unknown.
  }
  return { page, name: decoded, query: new URLSearchParams(query) };
}

export function hrefOf(page: string, name = "", query: Record<string, string> = {}): string {
  const search = new URLSearchParams(Object.entries(query).filter(([, value]) => value !== ""));
  const path = name === "" ? page : `${page}/${encodeURIComponent(name)}`;
  return `#/${path}${search.size > 0 ? `?${search}` : ""}`;
}

export function useRoute(): Route {
  const [hash, setHash] = useState(location.hash);
  useEffect(() => {
    const changed = () => setHash(location.hash);
    addEventListener("hashchange", changed);
    return () => removeEventListener("hashchange", changed);
  }, []);
  return parseRoute(hash);
}
