import {
  type Client,
  isFinal,
  type Nonce,
  NonceDecision,
  ProtectionDecision,
  StuckDecision,
  type Submitter,
  SubmitterStatus,
  type Tx,
  TxState,
  TxSubState,
} from "@fencepost/client/web";
import type { Choice } from "./actions";
import { actions } from "./words";

/** The decisions on an account, by its condition. */
export function accountChoices(client: Client, of: Submitter): Choice[] {
  const submitter = of.name;
  const choices: Choice[] = [];
  const protection = of.protection;
  if (protection) {
    const lift = (plain: ProtectionDecision, keepQueue: ProtectionDecision): Choice["run"] => {
      return ({ reason, operator, option }) =>
        client.submitters.exitProtect({
          submitter,
          protectionId: protection.protectionId,
          decision: option ? keepQueue : plain,
          reason,
          operator,
        });
    };
    choices.push(
      {
        action: actions.exitResume,
        run: lift(ProtectionDecision.RESUME, ProtectionDecision.RESUME_KEEP_QUEUE),
      },
      {
        action: actions.exitAlign,
        run: lift(ProtectionDecision.ALIGN_FORWARD, ProtectionDecision.ALIGN_FORWARD_KEEP_QUEUE),
      },
    );
  }
  if (of.status === SubmitterStatus.PAUSED) {
    choices.push({
      action: actions.resume,
      run: ({ reason, operator }) =>
        client.submitters.resumeSubmitter({
          submitter,
          reason,
          operator,
          pauseId: of.pause?.pauseId ?? "0",
        }),
    });
  }
  return choices;
}

/** The decisions on any account. */
export function moreAccountChoices(client: Client, of: Submitter): Choice[] {
  const submitter = of.name;
  const choices: Choice[] = [];
  if (of.status !== SubmitterStatus.PAUSED) {
    choices.push({
      action: actions.pause,
      run: ({ reason, operator }) =>
        client.submitters.pauseSubmitter({ submitter, reason, operator }),
    });
  }
  if (!of.protection) {
    choices.push({
      action: actions.protect,
      run: ({ reason, operator }) =>
        client.submitters.protectSubmitter({ submitter, reason, operator }),
    });
  }
  return choices;
}

/** The decisions on a transaction, by its state. They refer to the version that is shown. */
export function txChoices(client: Client, tx: Tx): Choice[] {
  const { txId } = tx;
  if (isFinal(tx.state)) {
    return [];
  }
  if (tx.state !== TxState.STUCK) {
    const choices: Choice[] = [];
    if (tx.subState === TxSubState.AWAITING_APPROVAL) {
      choices.push(
        {
          action: actions.approve,
          right: "approve",
          run: ({ reason, operator }) => client.txs.approveTx({ txId, reason, operator }),
        },
        {
          action: actions.deny,
          right: "approve",
          run: ({ reason, operator }) => client.txs.denyTx({ txId, reason, operator }),
        },
      );
    }
    if (tx.state !== TxState.QUEUED && tx.subState !== TxSubState.INCLUDED) {
      choices.push({
        action: actions.speedUp,
        right: "any",
        run: ({ reason, operator }) => client.txs.speedUpTx({ txId, reason, operator }),
      });
    }
    if (!tx.cancelRequested) {
      choices.push({
        action: actions.cancel,
        right: "any",
        run: ({ reason, operator }) => client.txs.cancelTx({ txId, reason, operator }),
      });
    }
    return choices;
  }
  const resolve = (plain: StuckDecision, unproven = plain): Choice["run"] => {
    return ({ reason, operator, option }) =>
      client.submitters.resolveStuck({
        txId,
        decision: option ? unproven : plain,
        reason,
        operator,
        expectVersion: tx.version,
      });
  };
  return [
    { action: actions.retry, run: resolve(StuckDecision.RETRY) },
    { action: actions.bump, run: resolve(StuckDecision.BUMP) },
    { action: actions.cancelStuck, run: resolve(StuckDecision.CANCEL) },
    {
      action: actions.requeue,
      run: resolve(StuckDecision.REQUEUE, StuckDecision.REQUEUE_UNPROVEN),
    },
    { action: actions.fail, run: resolve(StuckDecision.FAIL, StuckDecision.FAIL_UNPROVEN) },
  ];
}

/** The decisions on a nonce that a client reserved. They refer to the reservation that is shown. */
export function nonceChoices(client: Client, of: Nonce): Choice[] {
  const resolve = (decision: NonceDecision): Choice["run"] => {
    return ({ reason, operator }) =>
      client.nonces.resolveNonce({
        submitter: of.submitter,
        nonce: of.nonce,
        decision,
        reservationId: of.reservationId,
        reason,
        operator,
      });
  };
  if (of.txId !== "") {
    return []; // its transaction decides
  }
  const fill = { action: actions.fillNonce, run: resolve(NonceDecision.FILL) };
  const never = { action: actions.neverSigned, run: resolve(NonceDecision.NEVER_SIGNED) };
  return of.txHashes.length === 0 ? [never, fill] : [fill];
}
