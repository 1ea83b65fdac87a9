import {
  type Client,
  type Submitter,
  SubmitterCondition,
  type Tx,
  TxState,
  TxView,
} from "@fencepost/client/web";
import { type ReactNode, useState } from "react";
import { Actions } from "../actions";
import { accountChoices, txChoices } from "../choices";
import { ether } from "../format";
import { type Live, useLive, useWatch } from "../live";
import { AccountLink, Age, Failure, Fields, Loaded, Pager, TxLink } from "../parts";
import { useSession } from "../session";
import { TxBadge, TxMeaning } from "../states";
import { meaningOf, protections } from "../words";
import { NoncesItem } from "./nonces";
import { UndeliveredSection } from "./undelivered";

const pageSize = 20;
const intervalMs = 5000;

interface Page<T> {
  readonly rows: readonly T[];
  readonly next: string;
  readonly missingLedgers: readonly string[];
}

/** Everything that waits for an operator. */
export function DecisionsPage() {
  const stuck = usePaged<Tx>("stuck", async (client, pageToken, signal) => {
    const page = await client.txs.listTxs(
      { states: [TxState.STUCK], view: TxView.OPERATOR, pageSize, pageToken },
      { signal },
    );
    const { txs, nextPageToken, missingLedgers } = page;
    return { rows: txs, next: nextPageToken, missingLedgers };
  });
  const awaiting = usePaged<Tx>("awaiting", async (client, pageToken, signal) => {
    const page = await client.txs.listTxs(
      { awaitingApproval: true, view: TxView.OPERATOR, pageSize, pageToken },
      { signal },
    );
    const { txs, nextPageToken, missingLedgers } = page;
    return { rows: txs, next: nextPageToken, missingLedgers };
  });
  const accounts = {
    protected: usePaged("protected", inCondition(SubmitterCondition.PROTECTED)),
    paused: usePaged("paused", inCondition(SubmitterCondition.PAUSED)),
    unfunded: usePaged("unfunded", inCondition(SubmitterCondition.UNFUNDED)),
    nonces: usePaged("nonces", inCondition(SubmitterCondition.NONCE_NEEDS_OPERATOR)),
  };
  const reload = () => {
    for (const one of [stuck, awaiting, ...Object.values(accounts)]) {
      one.live.reload();
    }
  };
  const open = useWatch(
    "stuck",
    { target: { case: "all", value: {} }, states: [TxState.STUCK] },
    reload,
  );
  return (
    <>
      <h1>Needs a decision</h1>
      <p className="hint" role="status">
        {open ? "Live." : "Read every few seconds."} Fencepost keeps tracking everything on this
        page; nothing here is lost while it waits.
      </p>
      <Section
        title="Protected accounts"
        meaning="They take no nonce, sign nothing new and accept no request until you decide."
        paged={accounts.protected}
        item={(s) => <ProtectedItem key={s.name} of={s} onDone={reload} />}
      />
      <Section
        title="Stuck transactions"
        meaning="They need a decision. Each keeps its nonce, and blocks the queue behind it."
        paged={stuck}
        item={(tx) => <StuckItem key={tx.txId} tx={tx} onDone={reload} />}
      />
      <Section
        title="Transactions that await an approval"
        meaning="They exceed a limit of their caller. Another caller must approve them in time."
        paged={awaiting}
        item={(tx) => <AwaitingItem key={tx.txId} tx={tx} onDone={reload} />}
      />
      <Section
        title="Paused accounts"
        meaning="They take no new nonce. Transactions in flight proceed, queued ones wait."
        paged={accounts.paused}
        item={(s) => <PausedItem key={s.name} of={s} onDone={reload} />}
      />
      <Section
        title="Accounts without funds"
        meaning="They cannot afford their next transaction. Fund them; they proceed automatically."
        paged={accounts.unfunded}
        item={(s) => <UnfundedItem key={s.name} of={s} />}
      />
      <Section
        title="Nonces of clients"
        meaning="Clients reserved them, and the chain does not show whether they signed for them.
          The nonces above wait until you decide."
        paged={accounts.nonces}
        item={(s) => <NoncesItem key={s.name} of={s} onDone={reload} />}
      />
      <UndeliveredSection />
    </>
  );
}

interface Paged<T> {
  readonly live: Live<Page<T>>;
  readonly tokens: string[];
  readonly setTokens: (tokens: string[]) => void;
}

function usePaged<T>(
  name: string,
  read: (client: Client, pageToken: string, signal: AbortSignal) => Promise<Page<T>>,
): Paged<T> {
  const [tokens, setTokens] = useState<string[]>([]);
  const token = tokens.at(-1) ?? "";
  const live = useLive(`${name} ${token}`, intervalMs, (client, signal) =>
    read(client, token, signal),
  );
  return { live, tokens, setTokens };
}

function inCondition(condition: SubmitterCondition) {
  return async (
    client: Client,
    pageToken: string,
    signal: AbortSignal,
  ): Promise<Page<Submitter>> => {
    const page = await client.submitters.listSubmitters(
      { conditions: [condition], pageSize, pageToken },
      { signal },
    );
    const { submitters, nextPageToken, missingLedgers } = page;
    return { rows: submitters, next: nextPageToken, missingLedgers };
  };
}

function Section<T>({
  title,
  meaning,
  paged,
  item,
}: {
  title: string;
  meaning: string;
  paged: Paged<T>;
  item: (row: T) => ReactNode;
}) {
  return (
    <section aria-label={title}>
      <h2>{title}</h2>
      <Loaded live={paged.live} what="Reading the list">
        {({ rows, next }) => (
          <>
            {rows.length === 0 && paged.tokens.length === 0 ? (
              <p className="hint">None.</p>
            ) : (
              <>
                <p>{meaning}</p>
                <ul className="items">{rows.map(item)}</ul>
              </>
            )}
            <Pager
              tokens={paged.tokens}
              next={next}
              onChange={paged.setTokens}
              label={`Pages of ${title.toLowerCase()}`}
            />
          </>
        )}
      </Loaded>
    </section>
  );
}

function ProtectedItem({ of, onDone }: { of: Submitter; onDone: () => void }) {
  const { client } = useSession();
  const choices = accountChoices(client, of).slice(0, 2);
  return (
    <li>
      <h3>
        <AccountLink name={of.name} />
      </h3>
      <ProtectionFacts of={of} />
      <Actions subject={`account ${of.name}`} choices={choices} onDone={onDone} />
    </li>
  );
}

export function ProtectionFacts({ of }: { of: Submitter }) {
  const protection = of.protection;
  if (!protection) {
    return null;
  }
  const meaning = protections[protection.reason];
  return (
    <>
      <p>
        <strong>{protection.reason}</strong>: {meaning?.says} {meaning?.todo}
      </p>
      <p className="evidence">{protection.evidence}</p>
      <Fields
        rows={[
          ["protection", String(protection.protectionId)],
          ["for", <Age of={protection.time} />],
          ["next nonce of the ledger", text(of.nextNonce)],
          ["next nonce on chain then", text(protection.chainNonce)],
          ["in flight", String(of.inFlight)],
        ]}
      />
    </>
  );
}

export const text = (value: bigint | string | undefined): string =>
  value === undefined ? "unknown" : String(value);

function StuckItem({ tx, onDone }: { tx: Tx; onDone: () => void }) {
  const { client } = useSession();
  return (
    <li>
      <h3>
        <TxLink id={tx.txId}>
          {tx.submitter} / {tx.requestId}
        </TxLink>{" "}
        <TxBadge state={tx.state} sub={tx.subState} />
      </h3>
      <TxMeaning tx={tx} />
      <Fields
        rows={[
          ["nonce", text(tx.operator?.nonce)],
          ["attempts", String(tx.operator?.attempts.length ?? 0)],
          ["broadcasts of the newest", String(tx.operator?.submitAttempts ?? 0)],
          ["version", String(tx.version)],
          ["age", <Age of={tx.createTime} />],
        ]}
      />
      <Actions
        subject={`transaction ${tx.requestId} of ${tx.submitter}`}
        choices={txChoices(client, tx)}
        onDone={onDone}
      />
    </li>
  );
}

function AwaitingItem({ tx, onDone }: { tx: Tx; onDone: () => void }) {
  const { client } = useSession();
  return (
    <li>
      <h3>
        <TxLink id={tx.txId}>
          {tx.submitter} / {tx.requestId}
        </TxLink>{" "}
        <TxBadge state={tx.state} sub={tx.subState} />
      </h3>
      <Fields
        rows={[
          ["caller", tx.operator?.caller || "unknown"],
          ["value", ether(tx.payload?.value ?? "0")],
          ["to", tx.payload?.to ? <code>{tx.payload.to}</code> : "creates a contract"],
          ["call data", `${tx.payload?.data.length ?? 0} bytes`],
          ["age", <Age of={tx.createTime} />],
        ]}
      />
      <Actions
        subject={`transaction ${tx.requestId} of ${tx.submitter}`}
        choices={txChoices(client, tx)}
        onDone={onDone}
      />
    </li>
  );
}

function PausedItem({ of, onDone }: { of: Submitter; onDone: () => void }) {
  const { client } = useSession();
  const pause = of.pause;
  const choices = accountChoices(client, of).slice(-1);
  return (
    <li>
      <h3>
        <AccountLink name={of.name} />
      </h3>
      {pause && (
        <p>
          {pause.onFailure
            ? "Paused because a transaction reverted. Review it before you resume."
            : "Paused by an operator."}{" "}
          {pause.reason !== "" && <span className="evidence">{pause.reason}</span>}
        </p>
      )}
      <Fields
        rows={[
          ["by", pause?.operator || "unknown"],
          ["for", <Age of={pause?.time} />],
          ["in flight", String(of.inFlight)],
        ]}
      />
      <Actions subject={`account ${of.name}`} choices={choices} onDone={onDone} />
    </li>
  );
}

function UnfundedItem({ of }: { of: Submitter }) {
  const live = useLive(of.name, 30_000, async (client, signal) => {
    const { submitter } = await client.submitters.getSubmitter({ submitter: of.name }, { signal });
    return submitter;
  });
  const waiting = live.data?.blocking ?? live.data?.queueHead;
  return (
    <li>
      <h3>
        <AccountLink name={of.name} />
      </h3>
      <Failure error={live.error} what="Reading the account" />
      {waiting && (
        <>
          <p>
            <TxLink id={waiting.txId}>{waiting.requestId}</TxLink>:{" "}
            {meaningOf(waiting.reason, false).says} {meaningOf(waiting.reason, false).todo}
          </p>
          <p className="evidence">{waiting.message}</p>
        </>
      )}
      <Fields
        rows={[
          ["account to fund", <code>{of.accountId}</code>],
          ["waiting", <Age of={waiting?.createTime} />],
        ]}
      />
    </li>
  );
}
