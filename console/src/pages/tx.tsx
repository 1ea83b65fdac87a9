import { Executed, type Tx, type TxEvent, TxEventKind, TxView } from "@fencepost/client/web";
import { useRef, useState } from "react";
import { Actions } from "../actions";
import { txChoices } from "../choices";
import { enumName, ether, grouped, gwei } from "../format";
import { useLive, useWatch } from "../live";
import { AccountLink, Age, Fields, Id, Loaded, Table, When } from "../parts";
import { hrefOf } from "../router";
import { useSession } from "../session";
import { TxBadge, TxMeaning } from "../states";
import { text } from "./decisions";

export function TxPage({ id }: { id: string }) {
  const { client } = useSession();
  const live = useLive(`tx ${id}`, 10_000, (client, signal) =>
    client.txs.getTx({ key: { case: "txId", value: id }, view: TxView.OPERATOR }, { signal }),
  );
  const [events, open] = useTimeline(id, live.reload);
  return (
    <>
      <h1>
        Transaction <code>{id}</code>
      </h1>
      <p className="hint" role="status">
        {open ? "Live: every event appears as it is recorded." : "Not live: connecting again."}
      </p>
      <Loaded live={live} what="Reading the transaction">
        {({ tx }) =>
          tx && (
            <>
              <Facts tx={tx} />
              <Actions
                subject={`transaction ${tx.requestId} of ${tx.submitter}`}
                choices={txChoices(client, tx)}
                onDone={live.reload}
              />
              <Attempts tx={tx} />
              <ReceiptFacts tx={tx} />
            </>
          )
        }
      </Loaded>
      <Timeline events={events} />
    </>
  );
}

const mostEvents = 1000; // shown; the newest

/** The events of a transaction from the first, in order, without repetition. */
function useTimeline(id: string, onEvent: () => void): [readonly TxEvent[], boolean] {
  const [events, setEvents] = useState<readonly TxEvent[]>([]);
  const last = useRef(0n);
  const open = useWatch(
    `tx ${id}`,
    { target: { case: "txId", value: id } },
    ({ message }) => {
      if (message.case !== "event") {
        return;
      }
      const event = message.value;
      if (BigInt(event.seq) > last.current) {
        last.current = BigInt(event.seq);
        setEvents((before) => [...before.slice(1 - mostEvents), event]);
        onEvent();
      }
    },
    () => {
      last.current = 0n;
      setEvents([]);
    },
  );
  return [events, open];
}

function Facts({ tx }: { tx: Tx }) {
  const labels = Object.entries(tx.labels);
  return (
    <>
      <p>
        <TxBadge state={tx.state} sub={tx.subState} />
      </p>
      <TxMeaning tx={tx} />
      <Fields
        rows={[
          ["account", <AccountLink name={tx.submitter} />],
          ["request id", tx.requestId],
          ["executed", enumName(Executed, tx.executed)],
          ["nonce", text(tx.operator?.nonce)],
          ["to", tx.payload?.to ? <code>{tx.payload.to}</code> : "creates a contract"],
          ["value", ether(tx.payload?.value ?? "0")],
          ["call data", `${tx.payload?.data.length ?? 0} bytes`],
          ["accepted", <When at={tx.createTime} />],
          ["age", <Age of={tx.createTime} />],
          ["final", <When at={tx.finalTime} />],
          ["caller", tx.operator?.caller || "–"],
          ["cancellation requested", tx.cancelRequested ? "yes" : "no"],
          [
            "labels",
            labels.length === 0
              ? "none"
              : labels.map(([key, value]) => (
                  <a
                    key={key}
                    className="label"
                    href={hrefOf("search", "", { q: `${key}=${value}` })}
                  >
                    {key}={value}
                  </a>
                )),
          ],
        ]}
      />
    </>
  );
}

function Attempts({ tx }: { tx: Tx }) {
  const operator = tx.operator;
  return (
    <section aria-label="Attempts">
      <h2>Attempts</h2>
      <p className="hint">
        All attempts have the same nonce, so at most one is included. Broadcasts of the newest:{" "}
        {operator?.submitAttempts ?? 0}; last broadcast: <When at={operator?.lastSubmitTime} />
        {operator?.diagnosis ? `; pool: ${operator.diagnosis}` : ""}.
      </p>
      <Table
        caption="Signed attempts, in signing order"
        rows={operator?.attempts ?? []}
        keyOf={(attempt) => String(attempt.attemptNo)}
        empty="Nothing is signed yet."
        columns={[
          { name: "No.", number: true, cell: (a) => String(a.attemptNo) },
          { name: "Kind", cell: (a) => a.kind },
          { name: "Hash", cell: (a) => <Id text={a.txHash} /> },
          { name: "Gas limit", number: true, cell: (a) => grouped(String(a.gasLimit)) },
          { name: "Fee cap", number: true, cell: (a) => gwei(a.feeCap) },
          { name: "Tip", number: true, cell: (a) => gwei(a.tip) },
          {
            name: "Accepted by an endpoint",
            cell: (a) => (a.attemptNo <= (operator?.acceptedAttempt ?? 0) ? "yes" : "no"),
          },
          { name: "Signed", cell: (a) => <When at={a.createTime} /> },
        ]}
      />
    </section>
  );
}

function ReceiptFacts({ tx }: { tx: Tx }) {
  const receipt = tx.receipt;
  return (
    <section aria-label="Receipt">
      <h2>Receipt</h2>
      {receipt ? (
        <Fields
          rows={[
            ["block", `${grouped(String(receipt.blockNumber))}`],
            ["block hash", <Id text={receipt.blockHash} />],
            ["included attempt", `${receipt.kind} ${receipt.txHash}`],
            ["result", receipt.success ? "success" : "reverted"],
            ["gas used", grouped(String(receipt.gasUsed))],
            ["price per gas", gwei(receipt.effectiveGasPrice)],
            ["contract", receipt.contractAddress || "–"],
          ]}
        />
      ) : (
        <p className="hint">It is in no block.</p>
      )}
    </section>
  );
}

function Timeline({ events }: { events: readonly TxEvent[] }) {
  return (
    <section aria-label="Timeline">
      <h2>Timeline</h2>
      <ol className="timeline" aria-live="polite" aria-relevant="additions">
        {events.map((event) => (
          <li key={String(event.seq)} value={Number(event.seq)}>
            <When at={event.time} /> <strong>{enumName(TxEventKind, event.kind)}</strong>{" "}
            <TxBadge state={event.state} sub={event.subState} />
            {event.reason !== "" && <> {event.reason}</>}
            {event.message !== "" && <p className="evidence">{event.message}</p>}
          </li>
        ))}
      </ol>
    </section>
  );
}
