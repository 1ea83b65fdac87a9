import { type Balance, type Submitter } from "@fencepost/client/web";
import { useState } from "react";
import { ether } from "../format";
import { useLive } from "../live";
import { AccountLink, Age, type Column, Id, Loaded, Pager, Table } from "../parts";
import { useSession } from "../session";
import { AccountBadges, queueOf } from "../states";
import { text } from "./decisions";

const pageSize = 50;

export function AccountsPage() {
  const { status } = useSession();
  const [tokens, setTokens] = useState<string[]>([]);
  const pageToken = tokens.at(-1) ?? "";
  const live = useLive(`accounts ${pageToken}`, 5000, (client, signal) =>
    client.submitters.listSubmitters({ pageSize, pageToken }, { signal }),
  );
  const names = live.data?.submitters.map((s) => s.name) ?? [];
  const mayRead = status.caller?.operator === true && names.length > 0;
  const balances = useLive(`balances ${names.join(" ")}`, 15_000, async (client, signal) => {
    const found = new Map<string, Balance>();
    if (mayRead) {
      const read = await client.status.listBalances({ submitters: names }, { signal });
      for (const balance of read.balances) {
        found.set(balance.submitter, balance);
      }
    }
    return found;
  });
  return (
    <>
      <h1>Accounts</h1>
      {status.caller?.operator !== true && (
        <p className="hint">Balances are shown to callers with the role operator.</p>
      )}
      <Loaded live={live} what="Reading the accounts">
        {({ submitters, nextPageToken }) => (
          <>
            <Table
              caption="Accounts by name"
              columns={columnsWith(balances.data)}
              rows={submitters}
              keyOf={(s) => s.name}
              empty="No account is registered."
            />
            <Pager
              tokens={tokens}
              next={nextPageToken}
              onChange={setTokens}
              label="Pages of accounts"
            />
          </>
        )}
      </Loaded>
    </>
  );
}

function columnsWith(balances: ReadonlyMap<string, Balance> | undefined): Column<Submitter>[] {
  return [
    { name: "Account", cell: (s) => <AccountLink name={s.name} /> },
    { name: "Status", cell: (s) => <AccountBadges of={s} /> },
    { name: "Chain", cell: (s) => String(s.chainId) },
    { name: "Address", cell: (s) => <Id text={s.address} /> },
    { name: "Owner", cell: (s) => s.lease?.ownerNode.split("/")[0] || "none" },
    { name: "Next nonce", number: true, cell: (s) => text(s.nextNonce) },
    { name: "Queue", number: true, cell: queueOf },
    { name: "Age of head", number: true, cell: (s) => <Age of={s.queueHeadTime} /> },
    { name: "In flight", number: true, cell: (s) => String(s.inFlight) },
    { name: "Balance", number: true, cell: (s) => balanceText(balances?.get(s.name)) },
  ];
}

export function balanceText(balance: Balance | undefined): string {
  if (balance === undefined) {
    return "–";
  }
  return balance.balance === "" ? balance.reason : ether(balance.balance);
}
