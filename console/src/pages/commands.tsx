import { type FormEvent, useState } from "react";
import { useLive } from "../live";
import { AccountLink, Loaded, Pager, Table, TxLink, When } from "../parts";
import { hrefOf } from "../router";

export function CommandsPage({ name }: { name: string }) {
  const [account, setAccount] = useState(name);
  const open = (event: FormEvent) => {
    event.preventDefault();
    location.hash = hrefOf("commands", account.trim());
  };
  return (
    <>
      <h1>Command log</h1>
      <p>
        Every command to an account, with its operator and result, and every automatic action,
        newest first. No entry is ever removed.
      </p>
      <form className="search" onSubmit={open}>
        <label>
          Account; empty shows all
          <input value={account} onChange={(event) => setAccount(event.target.value)} />
        </label>
        <button type="submit" className="primary">
          Show
        </button>
      </form>
      <Commands key={name} name={name} />
    </>
  );
}

function Commands({ name }: { name: string }) {
  const [tokens, setTokens] = useState<string[]>([]);
  const pageToken = tokens.at(-1) ?? "";
  const live = useLive(`commands ${name} ${pageToken}`, 5000, (client, signal) =>
    client.submitters.listCommands({ submitter: name, pageSize: 50, pageToken }, { signal }),
  );
  return (
    <Loaded live={live} what="Reading the commands">
      {({ commands, nextPageToken }) => (
        <>
          <Table
            caption={name === "" ? "Commands to all accounts" : `Commands to ${name}`}
            rows={commands}
            keyOf={(command) => String(command.commandId)}
            empty="No command was given."
            columns={[
              { name: "Time", cell: (c) => <When at={c.createTime} /> },
              {
                name: "Account",
                cell: (c) => (c.sink ? `sink ${c.sink}` : <AccountLink name={c.submitter} />),
              },
              { name: "Command", cell: (c) => `${c.kind} ${c.action}`.trim() },
              { name: "Transaction", cell: (c) => (c.txId ? <TxLink id={c.txId} /> : "–") },
              { name: "Operator", cell: (c) => c.operator || "–" },
              { name: "Caller", cell: (c) => c.caller || "–" },
              { name: "Reason", cell: (c) => c.reason || "–" },
              { name: "Result", cell: (c) => c.result || "not yet applied" },
              { name: "Applied", cell: (c) => <When at={c.applyTime} /> },
            ]}
          />
          <Pager
            tokens={tokens}
            next={nextPageToken}
            onChange={setTokens}
            label="Pages of commands"
          />
        </>
      )}
    </Loaded>
  );
}
