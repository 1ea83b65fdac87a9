import { type Balance, TxView, type Tx } from "@fencepost/client/web";
import { ether } from "../format";
import { useLive } from "../live";
import { AccountLink, Age, Loaded, Table, TxLink } from "../parts";
import { TxBadge } from "../states";
import { topUpHolds } from "../words";

const newest = 10;

/** The label and the caller of the transactions that top up an account. */
const label = (name: string): string => `fencepost/top-up=${name}`;
const caller = "@top-up";

/** The newest top-ups of an account, and why it gets none although it needs one. */
export function TopUpsSection({ name, balance }: { name: string; balance: Balance | undefined }) {
  const live = useLive(`top-ups ${name}`, 15_000, (client, signal) =>
    client.txs.listTxs(
      { labels: [label(name)], pageSize: newest, view: TxView.OPERATOR },
      { signal },
    ),
  );
  return (
    <Loaded live={live} what="Reading the top-ups">
      {({ txs }) => <TopUps name={name} txs={txs} balance={balance} />}
    </Loaded>
  );
}

export function TopUps({
  name,
  txs,
  balance,
}: {
  name: string;
  txs: readonly Tx[];
  balance: Balance | undefined;
}) {
  // A client may use the label too, but never this caller.
  const made = txs.filter((tx) => tx.operator?.caller === caller);
  const decided = balance?.topUp?.txId === "" ? balance.topUp : undefined;
  const held = balance?.topUpHeld ?? "";
  if (made.length === 0 && decided === undefined && held === "") {
    return null;
  }
  const meaning = topUpHolds[held];
  return (
    <section aria-label="Top-ups">
      <h2>Top-ups</h2>
      {held !== "" && (
        <p className="notice warn" role="status">
          The account needs a top-up and gets none (<strong>{held}</strong>): {meaning?.says}{" "}
          {meaning?.todo}
        </p>
      )}
      {decided && (
        <p>
          Decided, without a transaction yet: {ether(decided.amount)} from{" "}
          <AccountLink name={decided.treasury} />, for <Age of={decided.time} />.
        </p>
      )}
      <Table
        caption={`Newest top-ups of ${name}`}
        rows={made}
        keyOf={(tx) => tx.txId}
        empty="No top-up was sent."
        columns={[
          { name: "Transaction", cell: (tx) => <TxLink id={tx.txId} /> },
          { name: "Treasury", cell: (tx) => <AccountLink name={tx.submitter} /> },
          { name: "Amount", number: true, cell: (tx) => ether(tx.payload?.value ?? "") },
          { name: "State", cell: (tx) => <TxBadge state={tx.state} sub={tx.subState} /> },
          { name: "Reason", cell: (tx) => tx.reason || "–" },
          { name: "Age", number: true, cell: (tx) => <Age of={tx.createTime} /> },
        ]}
      />
    </section>
  );
}
