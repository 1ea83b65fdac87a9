import { TxView, type Tx } from "@fencepost/client/web";
import { type FormEvent, useEffect, useState } from "react";
import { queryOf } from "../find";
import { useLive } from "../live";
import { Loaded, Pager } from "../parts";
import { hrefOf } from "../router";
import { TxTable } from "./account";

interface Found {
  readonly txs: readonly Tx[];
  readonly next: string;
  readonly missingLedgers: readonly string[];
}

export function SearchPage({ query }: { query: URLSearchParams }) {
  const q = query.get("q") ?? "";
  const account = query.get("account") ?? "";
  const [term, setTerm] = useState(q);
  const [submitter, setSubmitter] = useState(account);
  useEffect(() => {
    setTerm(q);
    setSubmitter(account);
  }, [q, account]);
  const search = (event: FormEvent) => {
    event.preventDefault();
    location.hash = hrefOf("search", "", { q: term.trim(), account: submitter.trim() });
  };
  return (
    <>
      <h1>Search</h1>
      <form className="search" onSubmit={search}>
        <label>
          Transaction id, chain hash, label (key=value), or request id
          <input value={term} onChange={(event) => setTerm(event.target.value)} />
        </label>
        <label>
          Account, for a request id
          <input value={submitter} onChange={(event) => setSubmitter(event.target.value)} />
        </label>
        <button type="submit" className="primary">
          Search
        </button>
      </form>
      {q !== "" && <Results key={`${q} ${account}`} q={q} account={account} />}
    </>
  );
}

function Results({ q, account }: { q: string; account: string }) {
  const [tokens, setTokens] = useState<string[]>([]);
  const pageToken = tokens.at(-1) ?? "";
  const query = queryOf(q, account);
  const live = useLive<Found>(`${q} ${account} ${pageToken}`, 10_000, async (client, signal) => {
    const view = TxView.OPERATOR;
    const one = (tx: Tx | undefined): Found => ({
      txs: tx ? [tx] : [],
      next: "",
      missingLedgers: [],
    });
    switch (query.kind) {
      case "id":
        return one(
          (await client.txs.getTx({ key: { case: "txId", value: query.id }, view }, { signal })).tx,
        );
      case "hash":
        return one(
          (await client.txs.getTx({ key: { case: "hash", value: query.hash }, view }, { signal }))
            .tx,
        );
      case "request": {
        const value = { submitter: query.submitter, requestId: query.requestId };
        return one(
          (await client.txs.getTx({ key: { case: "request", value }, view }, { signal })).tx,
        );
      }
      case "label": {
        const page = await client.txs.listTxs(
          { labels: [query.label], pageSize: 25, pageToken, view },
          { signal },
        );
        const { txs, missingLedgers } = page;
        return { txs, next: page.nextPageToken, missingLedgers };
      }
      case "invalid":
        return one(undefined);
    }
  });
  if (query.kind === "invalid") {
    return (
      <p className="notice warn" role="alert">
        {query.why}
      </p>
    );
  }
  return (
    <Loaded live={live} what="Searching">
      {({ txs, next }) => (
        <>
          <TxTable txs={txs} caption={`Transactions found for ${q}`} />
          <Pager tokens={tokens} next={next} onChange={setTokens} label="Pages of results" />
        </>
      )}
    </Loaded>
  );
}
