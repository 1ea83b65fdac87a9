import { type Sink, SinkStatus, type Undelivered } from "@fencepost/client/web";
import { useState } from "react";
import { Actions, type Choice } from "../actions";
import { enumName } from "../format";
import { useLive } from "../live";
import { Age, Badge, Fields, Loaded, Pager, TxLink } from "../parts";
import { useSession } from "../session";
import { actions } from "../words";

const pageSize = 20;
const intervalMs = 5000;

/** Sinks that do not deliver, and the transactions whose events they gave up. */
export function UndeliveredSection() {
  const { status } = useSession();
  const rights = status.caller;
  return (
    <section aria-label="Undelivered events">
      <h2>Undelivered events</h2>
      {rights?.operator && rights.allSubmitters ? (
        <Sinks />
      ) : (
        <p className="hint">Sinks are shown to operators of all accounts.</p>
      )}
    </section>
  );
}

function Sinks() {
  const live = useLive("sinks", intervalMs, (client, signal) =>
    client.sinks.listSinks({}, { signal }),
  );
  return (
    <Loaded live={live} what="Reading the sinks">
      {({ sinks }) => {
        const failing = sinks.filter((s) => s.dead !== "0" || s.status !== SinkStatus.ACTIVE);
        if (failing.length === 0) {
          return <p className="hint">None.</p>;
        }
        return (
          <>
            <p>
              Events of these transactions are not retried any more. Their receiver gets them, and
              the later events of the same transaction, once you decide. The transactions
              themselves are not affected.
            </p>
            <ul className="items">
              {failing.map((sink) => (
                <SinkItem key={`${sink.ledger} ${sink.name}`} sink={sink} onDone={live.reload} />
              ))}
            </ul>
          </>
        );
      }}
    </Loaded>
  );
}

function SinkItem({ sink, onDone }: { sink: Sink; onDone: () => void }) {
  const { client } = useSession();
  const [tokens, setTokens] = useState<string[]>([]);
  const pageToken = tokens.at(-1) ?? "";
  const live = useLive(`undelivered ${sink.name} ${pageToken}`, intervalMs, (client, signal) =>
    client.sinks.listUndelivered(
      { sink: sink.name, deadOnly: true, pageSize, pageToken },
      { signal },
    ),
  );
  const done = () => {
    live.reload();
    onDone();
  };
  const choices: Choice[] = [];
  if (sink.status !== SinkStatus.ACTIVE) {
    choices.push({
      action: actions.resumeSink,
      run: ({ reason, operator }) =>
        client.sinks.resumeSink({ sink: sink.name, reason, operator }),
    });
  }
  if (sink.dead !== "0") {
    choices.push({
      action: actions.retryAll,
      run: ({ reason, operator }) =>
        client.sinks.retryUndelivered({ sink: sink.name, reason, operator }),
    });
  }
  return (
    <li>
      <h3>
        Sink {sink.name}
        {sink.ledger !== "" && <> in ledger {sink.ledger}</>}{" "}
        <Badge tone={sink.status === SinkStatus.ACTIVE ? "good" : "warn"}>
          {enumName(SinkStatus, sink.status)}
        </Badge>
      </h3>
      {sink.reason !== "" && <p className="evidence">{sink.reason}</p>}
      <Fields
        rows={[
          ["dead transactions", String(sink.dead)],
          ["transactions that wait for a retry", String(sink.parked)],
          ["delivers", sink.ownerNode || "no node"],
          ["newest event passed", <Age of={sink.eventTime} />],
        ]}
      />
      <Actions subject={`sink ${sink.name}`} choices={choices} onDone={done} />
      <Loaded live={live} what="Reading the undelivered events">
        {({ undelivered, nextPageToken }) => (
          <>
            <ul className="inner">
              {undelivered.map((one) => (
                <UndeliveredItem key={one.txId} sink={sink.name} of={one} onDone={done} />
              ))}
            </ul>
            <Pager
              tokens={tokens}
              next={nextPageToken}
              onChange={setTokens}
              label={`Pages of ${sink.name}`}
            />
          </>
        )}
      </Loaded>
    </li>
  );
}

function UndeliveredItem({
  sink,
  of,
  onDone,
}: {
  sink: string;
  of: Undelivered;
  onDone: () => void;
}) {
  const { client } = useSession();
  const { txId, seq } = of;
  return (
    <li>
      <p>
        <TxLink id={txId} />: events {seq} to {of.lastSeq}, {of.attempts} attempts, for{" "}
        <Age of={of.parkTime} />
      </p>
      <p className="evidence">{of.reason}</p>
      <Actions
        subject={`event ${seq} of transaction ${txId}`}
        choices={[
          {
            action: actions.retryDelivery,
            run: ({ reason, operator }) =>
              client.sinks.retryUndelivered({ sink, txId, reason, operator }),
          },
          {
            action: actions.skipDelivery,
            run: ({ reason, operator }) =>
              client.sinks.skipUndelivered({ sink, txId, seq, reason, operator }),
          },
        ]}
        onDone={onDone}
      />
    </li>
  );
}
