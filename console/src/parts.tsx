import type { Timestamp } from "@bufbuild/protobuf/wkt";
import { FencepostError } from "@fencepost/client/web";
import type { ReactNode } from "react";
import { duration, millis, short } from "./format";
import { useNow } from "./live";
import { hrefOf } from "./router";

export function Age({ of }: { of: Timestamp | undefined }) {
  const now = useNow();
  if (of === undefined) {
    return <>–</>;
  }
  const iso = new Date(millis(of)).toISOString();
  return (
    <time dateTime={iso} title={iso}>
      {duration(now - millis(of))}
    </time>
  );
}

export function When({ at }: { at: Timestamp | undefined }) {
  if (at === undefined) {
    return <>–</>;
  }
  const iso = new Date(millis(at)).toISOString();
  return <time dateTime={iso}>{iso.replace("T", " ").replace(/\.\d+Z$/, " UTC")}</time>;
}

/** An identifier, shortened, with the whole text for those who copy or listen. */
export function Id({ text }: { text: string }) {
  return (
    <code className="id" title={text}>
      {short(text)}
    </code>
  );
}

export function AccountLink({ name }: { name: string }) {
  return <a href={hrefOf("accounts", name)}>{name}</a>;
}

export function TxLink({ id, children }: { id: string; children?: ReactNode }) {
  return <a href={hrefOf("tx", id)}>{children ?? <Id text={id} />}</a>;
}

export type Tone = "good" | "bad" | "warn" | "plain";

export function Badge({ tone, children }: { tone: Tone; children: ReactNode }) {
  return <span className={`badge ${tone}`}>{children}</span>;
}

export function Fields({ rows }: { rows: [string, ReactNode][] }) {
  return (
    <dl className="fields">
      {rows.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

export interface Column<T> {
  readonly name: string;
  readonly number?: boolean;
  readonly cell: (row: T) => ReactNode;
}

export function Table<T>({
  caption,
  columns,
  rows,
  keyOf,
  empty,
}: {
  caption: string;
  columns: Column<T>[];
  rows: readonly T[];
  keyOf: (row: T) => string;
  empty: string;
}) {
  return (
    <div className="scroll" tabIndex={0} role="region" aria-label={caption}>
      <table>
        <caption>{caption}</caption>
        <thead>
          <tr>
            {columns.map((column) => (
              <th key={column.name} scope="col" className={column.number ? "number" : undefined}>
                {column.name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={keyOf(row)}>
              {columns.map((column) => (
                <td key={column.name} className={column.number ? "number" : undefined}>
                  {column.cell(row)}
                </td>
              ))}
            </tr>
          ))}
          {rows.length === 0 && (
            <tr>
              <td colSpan={columns.length}>{empty}</td>
            </tr>
          )}
        </tbody>
      </table>
    </div>
  );
}

/** Why a read or a decision failed, in the words of the node. */
export function Failure({ error, what }: { error: unknown; what: string }) {
  if (error === undefined) {
    return null;
  }
  const reason = error instanceof FencepostError ? error.reasonName : "";
  return (
    <p className="notice bad" role="alert">
      <strong>{what} failed</strong>
      {reason !== "" && <> ({reason})</>}: {messageOf(error)}
    </p>
  );
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** Names the ledgers whose part of the data is missing, because they do not respond. */
function MissingLedgers({ of }: { of: unknown }) {
  const names = (of as { missingLedgers?: readonly string[] } | undefined)?.missingLedgers ?? [];
  if (names.length === 0) {
    return null;
  }
  const [noun, verb] = names.length === 1 ? ["ledger", "does"] : ["ledgers", "do"];
  return (
    <p className="notice warn" role="status">
      Incomplete: {noun} <strong>{names.join(", ")}</strong> {verb} not respond.
    </p>
  );
}

/**
 * Shows data, or why there is none. Older data stays visible with a note, and so does a response
 * that lacks ledgers.
 */
export function Loaded<T>({
  live,
  what,
  children,
}: {
  live: { data: T | undefined; error: unknown };
  what: string;
  children: (data: T) => ReactNode;
}) {
  return (
    <>
      {live.error !== undefined && live.data !== undefined && (
        <p className="notice warn" role="status">
          Not up to date: the node does not respond. Retrying.
        </p>
      )}
      {live.data === undefined && <Failure error={live.error} what={what} />}
      {live.data === undefined && live.error === undefined && <p role="status">Loading…</p>}
      <MissingLedgers of={live.data} />
      {live.data !== undefined && children(live.data)}
    </>
  );
}

/** Pages through a list by the tokens of the API. */
export function Pager({
  tokens,
  next,
  onChange,
  label,
}: {
  /** The tokens of the pages up to this one; empty on the first page. */
  tokens: readonly string[];
  next: string;
  onChange: (tokens: string[]) => void;
  label: string;
}) {
  if (tokens.length === 0 && next === "") {
    return null;
  }
  return (
    <nav className="pager" aria-label={label}>
      <button type="button" disabled={tokens.length === 0} onClick={() => onChange([])}>
        First page
      </button>
      <button
        type="button"
        disabled={tokens.length === 0}
        onClick={() => onChange(tokens.slice(0, -1))}
      >
        Previous page
      </button>
      <span>Page {tokens.length + 1}</span>
      <button type="button" disabled={next === ""} onClick={() => onChange([...tokens, next])}>
        Next page
      </button>
    </nav>
  );
}
