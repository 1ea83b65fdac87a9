import {
  type Submitter,
  SubmitterStatus,
  TxState,
  TxSubState,
  type Tx,
} from "@fencepost/client/web";
import { enumName } from "./format";
import { Badge, type Tone } from "./parts";
import { meaningOf, states, subStates } from "./words";

export function TxBadge({ state, sub }: { state: TxState; sub: TxSubState }) {
  const tones: Partial<Record<TxState, Tone>> = {
    [TxState.STUCK]: "bad",
    [TxState.CONFIRMED]: "good",
    [TxState.FAILED_FINAL]: "bad",
    [TxState.CANCELLED]: "warn",
  };
  const name = enumName(TxState, state);
  const refined = sub === TxSubState.UNSPECIFIED ? "" : ` · ${enumName(TxSubState, sub)}`;
  const tone = sub === TxSubState.UNFUNDED ? "warn" : (tones[state] ?? "plain");
  return (
    <Badge tone={tone}>
      {name}
      {refined}
    </Badge>
  );
}

export function AccountBadges({ of }: { of: Submitter }) {
  return (
    <>
      {of.protection && <Badge tone="bad">PROTECTED</Badge>}
      {of.status === SubmitterStatus.PAUSED && <Badge tone="warn">PAUSED</Badge>}
      {of.unfunded && <Badge tone="warn">UNFUNDED</Badge>}
      {!of.protection && of.status === SubmitterStatus.ACTIVE && !of.unfunded && (
        <Badge tone="good">ACTIVE</Badge>
      )}
    </>
  );
}

/** What the state of a transaction means, and what to do about it. */
export function TxMeaning({ tx }: { tx: Tx }) {
  const final = tx.finalTime !== undefined;
  const { says, todo } = meaningOf(tx.reason, final);
  const sub = subStates[enumName(TxSubState, tx.subState)];
  return (
    <div className="meaning">
      <p>
        {states[enumName(TxState, tx.state)]} {sub}
      </p>
      {tx.reason !== "" && (
        <p>
          <strong>{tx.reason}</strong>: {says} {todo}
        </p>
      )}
      {tx.lastError !== "" && <p className="evidence">{tx.lastError}</p>}
    </div>
  );
}

export const queueOf = (s: Submitter): string =>
  s.queuedIsAtLeast ? `≥ ${s.queued}` : String(s.queued);
