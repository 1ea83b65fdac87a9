import { TxState, TxView, type Tx } from "@fencepost/client/web";
import { useState } from "react";
import { Actions } from "../actions";
import { accountChoices, moreAccountChoices } from "../choices";
import { useLive, useWatch } from "../live";
import { AccountLink, Age, Fields, Loaded, Pager, Table, TxLink } from "../parts";
import { hrefOf } from "../router";
import { useSession } from "../session";
import { AccountBadges, queueOf, TxBadge } from "../states";
import { meaningOf } from "../words";
import { balanceText } from "./accounts";
import { ProtectionFacts, text } from "./decisions";
import { TopUpsSection } from "./topups";

const moving = [
  TxState.ALLOCATED,
  TxState.TRACKING,
  TxState.STUCK,
  TxState.CONFIRMED,
  TxState.FAILED_FINAL,
  TxState.CANCELLED,
];

export function AccountPage({ name }: { name: string }) {
  const { client, status } = useSession();
  const [tokens, setTokens] = useState<string[]>([]);
  const pageToken = tokens.at(-1) ?? "";
  const account = useLive(`account ${name}`, 3000, (client, signal) =>
    client.submitters.getSubmitter({ submitter: name }, { signal }),
  );
  const txs = useLive(`txs ${name} ${pageToken}`, 5000, (client, signal) =>
    client.txs.listTxs(
      { submitter: name, pageSize: 25, pageToken, view: TxView.OPERATOR },
      { signal },
    ),
  );
  const balance = useLive(`balance ${name}`, 15_000, async (client, signal) => {
    if (status.caller?.operator !== true) {
      return undefined;
    }
    return (await client.status.listBalances({ submitters: [name] }, { signal })).balances[0];
  });
  const reload = () => {
    account.reload();
    txs.reload();
  };
  // Without QUEUED, which may be a long list of snapshots.
  useWatch(
    `account ${name}`,
    { target: { case: "submitter", value: name }, states: moving },
    reload,
  );
  return (
    <>
      <h1>Account {name}</h1>
      <Loaded live={account} what="Reading the account">
        {({ submitter: s }) =>
          s && (
            <>
              <p>
                <AccountBadges of={s} />
              </p>
              <ProtectionFacts of={s} />
              {s.pause && (
                <p>
                  Paused by {s.pause.operator || "an operator"}: {s.pause.reason}
                </p>
              )}
              <Fields
                rows={[
                  ["account", <code>{s.accountId}</code>],
                  ["owner", <code>{s.lease?.ownerNode || "none"}</code>],
                  ["fencing token", String(s.lease?.fencingToken ?? 0)],
                  ["next nonce", text(s.nextNonce)],
                  ["queue", queueOf(s)],
                  ["age of head", <Age of={s.queueHeadTime} />],
                  ["in flight", String(s.inFlight)],
                  ["balance", balanceText(balance.data)],
                  ["signer", s.signer],
                  ["commands", <a href={hrefOf("commands", s.name)}>command log</a>],
                ]}
              />
              <WaitingFacts title="Blocks the next nonce" of={s.blocking} />
              <WaitingFacts title="Head of the queue" of={s.queueHead} />
              <Actions
                subject={`account ${s.name}`}
                choices={[...accountChoices(client, s), ...moreAccountChoices(client, s)]}
                onDone={reload}
              />
              {s.gaps.length > 0 && (
                <p>
                  Skipped nonces:{" "}
                  {s.gaps.map((gap) => `${gap.firstNonce}–${gap.lastNonce}`).join(", ")}
                </p>
              )}
            </>
          )
        }
      </Loaded>
      {account.data?.submitter && (
        <TopUpsSection name={account.data.submitter.name} balance={balance.data} />
      )}
      <h2>Transactions</h2>
      <Loaded live={txs} what="Reading the transactions">
        {(page) => (
          <>
            <TxTable txs={page.txs} caption={`Transactions of ${name}, newest first`} />
            <Pager
              tokens={tokens}
              next={page.nextPageToken}
              onChange={setTokens}
              label="Pages of transactions"
            />
          </>
        )}
      </Loaded>
    </>
  );
}

function WaitingFacts({
  title,
  of,
}: {
  title: string;
  of: { txId: string; requestId: string; reason: string; message: string } | undefined;
}) {
  if (of === undefined) {
    return null;
  }
  const meaning = meaningOf(of.reason, false);
  return (
    <p>
      {title}: <TxLink id={of.txId}>{of.requestId}</TxLink>
      {of.reason !== "" && (
        <>
          {" "}
          (<strong>{of.reason}</strong>: {meaning.says} {meaning.todo}){" "}
          <span className="evidence">{of.message}</span>
        </>
      )}
    </p>
  );
}

export function TxTable({ txs, caption }: { txs: readonly Tx[]; caption: string }) {
  return (
    <Table
      caption={caption}
      rows={txs}
      keyOf={(tx) => tx.txId}
      empty="No transaction."
      columns={[
        { name: "Transaction", cell: (tx) => <TxLink id={tx.txId} /> },
        { name: "Account", cell: (tx) => <AccountLink name={tx.submitter} /> },
        { name: "Request id", cell: (tx) => tx.requestId },
        { name: "State", cell: (tx) => <TxBadge state={tx.state} sub={tx.subState} /> },
        { name: "Reason", cell: (tx) => tx.reason },
        { name: "Nonce", number: true, cell: (tx) => String(tx.operator?.nonce ?? "–") },
        { name: "Age", number: true, cell: (tx) => <Age of={tx.createTime} /> },
      ]}
    />
  );
}
