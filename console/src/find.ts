/** A search that the API can run. */
export type Query =
  | { readonly kind: "id"; readonly id: string }
  | { readonly kind: "hash"; readonly hash: string }
  | { readonly kind: "request"; readonly submitter: string; readonly requestId: string }
  | { readonly kind: "label"; readonly label: string }
  | { readonly kind: "invalid"; readonly why: string };

const uuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/**
 * Decides the meaning of a text. With an account it is a request id, since any text can be one.
 * Otherwise its form decides: a UUID is a transaction id, 64 hex digits are a hash, and key=value
 * is a label.
 */
export function queryOf(text: string, account: string): Query {
  const term = text.trim();
  const submitter = account.trim();
  if (term === "") {
    return { kind: "invalid", why: "Enter an id, a hash or a label." };
  }
  if (submitter !== "") {
    return { kind: "request", submitter, requestId: term };
  }
  if (uuid.test(term)) {
    return { kind: "id", id: term.toLowerCase() };
  }
  if (/^(0x)?[0-9a-f]{64}$/i.test(term)) {
    return { kind: "hash", hash: `0x${term.replace(/^0x/i, "")}` };
  }
  if (/^[a-z][a-z0-9._/-]{0,62}=/.test(term)) {
    return { kind: "label", label: term };
  }
  return {
    kind: "invalid",
    why: "This is not an id, a hash or a label. For a request id, enter its account too.",
  };
}
