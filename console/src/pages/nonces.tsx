import type { Nonce, Submitter } from "@fencepost/client/web";
import { useState } from "react";
import { Actions } from "../actions";
import { nonceChoices } from "../choices";
import { useLive } from "../live";
import { AccountLink, Age, Fields, Id, Loaded, Pager, TxLink, When } from "../parts";
import { useSession } from "../session";
import { nonceReasons } from "../words";

const pageSize = 20;
const intervalMs = 5000;

/** The nonces of an account that clients reserved, and that need an operator. */
export function NoncesItem({ of, onDone }: { of: Submitter; onDone: () => void }) {
  const [tokens, setTokens] = useState<string[]>([]);
  const pageToken = tokens.at(-1) ?? "";
  const live = useLive(`nonces ${of.name} ${pageToken}`, intervalMs, (client, signal) =>
    client.nonces.listNonces(
      { submitter: of.name, needsOperator: true, pageSize, pageToken },
      { signal },
    ),
  );
  const done = () => {
    live.reload();
    onDone();
  };
  return (
    <li>
      <h3>
        <AccountLink name={of.name} />
      </h3>
      <Loaded live={live} what="Reading the nonces">
        {({ nonces, nextPageToken }) => (
          <>
            <ul className="inner">
              {nonces.map((nonce) => (
                <NonceItem key={nonce.nonce} of={nonce} onDone={done} />
              ))}
            </ul>
            <Pager
              tokens={tokens}
              next={nextPageToken}
              onChange={setTokens}
              label={`Pages of nonces of ${of.name}`}
            />
          </>
        )}
      </Loaded>
    </li>
  );
}

function NonceItem({ of, onDone }: { of: Nonce; onDone: () => void }) {
  const { client } = useSession();
  return (
    <li>
      <p>
        <strong>Nonce {of.nonce}</strong>: {nonceReasons[of.reason] ?? of.reason}
      </p>
      {of.message !== "" && <p className="evidence">{of.message}</p>}
      {of.txId !== "" && <p>Its transaction decides: see there.</p>}
      <Fields
        rows={[
          ["holder", of.holder || "unknown"],
          ["reserved", <When at={of.reserveTime} />],
          ["waits for evidence for", <Age of={of.stateTime} />],
          ["reservation", <Id text={of.reservationId} />],
          [
            "hashes that were reported",
            of.txHashes.length === 0 ? "none" : of.txHashes.map((h) => <Id key={h} text={h} />),
          ],
          ["transaction", of.txId === "" ? "none" : <TxLink id={of.txId} />],
        ]}
      />
      <Actions
        subject={`nonce ${of.nonce} of account ${of.submitter}`}
        choices={nonceChoices(client, of)}
        onDone={onDone}
      />
    </li>
  );
}
