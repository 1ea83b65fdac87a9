/** The meaning of states, reasons and decisions. docs/operations.md explains them in full. */

export interface Meaning {
  readonly says: string;
  /** What to do about it. */
  readonly todo: string;
}

export const protections: Record<string, Meaning> = {
  NONCE_USED_ELSEWHERE: {
    says: "A transaction that is not in the ledger used a nonce of the account.",
    todo:
      "Find the program that has the key, and stop it. Only Fencepost may use its key. Fail or " +
      "requeue a transaction that lost its nonce, then lift the protection.",
  },
  CHAIN_BEHIND: {
    says: "The chain lacks blocks that the ledger knows.",
    todo: "Check the endpoints. If the chain lost blocks, wait until they are there again.",
  },
  LEDGER_VIOLATION: {
    says: "The audit found a broken rule of the ledger.",
    todo: "Run “fencepost audit”, and do not proceed before you understand the cause.",
  },
  DATABASE_RESTORED: {
    says: "The ledger was restored and may lack the newest transactions.",
    todo:
      "Compare the queued transactions with the chain, and cancel those that executed after " +
      "the backup. Then decide with “keep queue”.",
  },
  REORGED_AFTER_FINAL: {
    says: "Blocks with final transactions left the chain.",
    todo:
      "Nothing: they are rebroadcast, and the protection lifts automatically once all are " +
      "final again. Inform everyone who acted on their finality.",
  },
  REQUEUED_AND_RAN: {
    says: "A requeued transaction is on chain under its old nonce.",
    todo: "Nothing for the transaction. Find out why the earlier proof was wrong.",
  },
  ENDED_AND_RAN: {
    says: "A transaction that was final as never executed is on chain.",
    todo: "Inform everyone who acted on that outcome. Nothing for the transaction.",
  },
  BY_OPERATOR: {
    says: "An operator protected the account.",
    todo: "Ask that operator; the evidence is the reason given.",
  },
};

/** Why an account that needs a top-up gets none. docs/balances.md explains them in full. */
export const topUpHolds: Record<string, Meaning> = {
  TREASURY_UNFUNDED: {
    says: "The treasury cannot afford it.",
    todo: "Fund the treasury. The transaction that waits then proceeds.",
  },
  TREASURY_PAUSED: { says: "The treasury is paused.", todo: "Resume the treasury." },
  TREASURY_PROTECTED: {
    says: "The treasury is protected.",
    todo: "Decide on its protection, then resume it.",
  },
  TREASURY_QUEUE_FULL: {
    says: "The queue of the treasury is full.",
    todo: "Wait, or raise queue.max_per_submitter.",
  },
  TREASURY_UNKNOWN: {
    says: "No submitter of this ledger and chain has the name of the treasury.",
    todo: "Register it there, or correct the rule.",
  },
  TREASURY_EXTERNAL: {
    says: "Clients sign for the treasury.",
    todo: "Choose a treasury for which Fencepost signs.",
  },
  TREASURY_BLOCKED: {
    says: "It waits in the queue of the treasury.",
    todo: "See the first transaction there.",
  },
  TREASURY_MOVED: {
    says: "The treasury moved to another ledger.",
    todo: 'Name another treasury, then run "fencepost submitter void-top-up".',
  },
  DAY_LIMIT: {
    says: "The top-ups of the last 24 hours reach max_per_day.",
    todo: "Raise max_per_day, or find out why the account spends so much.",
  },
  ACCOUNT_PROTECTED: {
    says: "The account is protected; its key may be stolen.",
    todo: "Decide on its protection.",
  },
  ACCOUNT_PAUSED: { says: "The account is paused.", todo: "Resume the account." },
  ACCOUNT_UNKNOWN: {
    says: "No ledger of the node has the account of the rule.",
    todo: "Correct submitters or pools of the rule.",
  },
  NO_RULE: {
    says: "No rule of the nodes has the top-up that was decided.",
    todo: 'Restore the rule, or run "fencepost submitter void-top-up".',
  },
  TOP_UP_UNVERIFIED: {
    says: "The row was written by hand, or the keys of nodes differ.",
    todo: 'Correct intents.key_file, or run "fencepost submitter void-top-up".',
  },
  TOP_UP_RESTORED: {
    says: "The database lost commits after the decision. The top-up may have been executed.",
    todo: 'Compare the treasury with the chain, then run "fencepost submitter void-top-up".',
  },
  TOP_UP_NOT_IN_CHAIN: {
    says: "The endpoint lacks the block of the last top-up.",
    todo: "Wait. After 24 hours the account is judged again.",
  },
  TOP_UP_STUCK: {
    says: "The transaction of the last top-up is stuck.",
    todo: "Decide on it.",
  },
};

export const waits: Record<string, Meaning> = {
  CHAIN_UNAVAILABLE: {
    says: "No endpoint of the chain responds.",
    todo: "Check the endpoints. It proceeds automatically.",
  },
  ESTIMATE_FAILED: {
    says: "The endpoints respond, but none estimates the gas.",
    todo: "Nothing at first. If it stays, check the endpoints and the payload, or cancel it.",
  },
  WAITING_FOR_LOWER_NONCES: {
    says: "It would revert, or lacks funds, while lower nonces are in no block.",
    todo: "Nothing. It is judged once they are in a block.",
  },
  INSUFFICIENT_FUNDS: {
    says: "The account cannot afford it.",
    todo: "Fund the account. It then proceeds automatically.",
  },
  SIGNER_UNAVAILABLE: {
    says: "The signer does not respond, or this node has no signer of that name.",
    todo: "Check the signer. It proceeds when the signer responds.",
  },
  SIGNER_FAULT: {
    says: "The signer returned a different transaction, which was dropped.",
    todo: "Check the signer.",
  },
  WOULD_REVERT: {
    says: "The chain reports that it would revert.",
    todo: "Nothing: after the same result on three blocks it fails without taking a nonce.",
  },
  INVALID_TRANSACTION: {
    says: "The chain reports that it can never succeed.",
    todo: "Nothing: after the same result on three blocks it fails without taking a nonce.",
  },
  INTENT_UNVERIFIED: {
    says: "The row is not the transaction that a node accepted, or the keys of nodes differ.",
    todo: "Run “fencepost audit --chain”, then cancel it or correct intents.key_file.",
  },
  CALLER_UNKNOWN: {
    says: "The caller that created it is not in the configuration any more.",
    todo: "Cancel it, or add the caller again.",
  },
  GAS_LIMIT_ABOVE_MAXIMUM: {
    says: "It needs more gas than the chain’s configuration allows (gas.max_limit).",
    todo: "Raise the limit if the chain’s pools accept more, or let it fail.",
  },
  FEE_CAP_BELOW_BASE_FEE: {
    says: "The fees of the chain exceed the lowest fee cap.",
    todo: "Wait until fees fall, raise the cap, or cancel the transaction.",
  },
  ACCOUNT_HAS_CODE: {
    says:
      "The account is a contract or delegates to code, so its nonce can rise without " +
      "Fencepost.",
    todo: "Remove the delegation, or use another account.",
  },
  START_NONCE_MISMATCH: {
    says: "start_from differs from the account’s next nonce.",
    todo: "Register the account with the right start_from.",
  },
  ACCOUNT_NOT_QUIESCENT: {
    says: "The account has unsettled transactions that are not in the ledger.",
    todo: "Wait until they are settled.",
  },
  CHAIN_BEHIND: {
    says: "The chain lacks blocks that the ledger knows.",
    todo: "Check the endpoints. It proceeds once the chain has caught up.",
  },
  NONCE_USED_ELSEWHERE: {
    says: "Another program used the nonce of this transaction.",
    todo: "Find the program that has the key. Then fail or requeue the transaction.",
  },
  RESUBMIT_ATTEMPTS_EXHAUSTED: {
    says: "It was broadcast many times and is in no block.",
    todo: "Check fee and chain. Speed it up, retry, or cancel it.",
  },
  RESUBMIT_AGE_EXCEEDED: {
    says: "It is past its maximum age and in no block.",
    todo: "Check fee and chain. Speed it up, retry, or cancel it.",
  },
  REJECTED_BY_NODE: {
    says: "A node reports that these bytes can never pass, but another attempt may be in a pool.",
    todo: "Read the message. If no pool can have it, it is cancelled automatically.",
  },
  RECEIPT_UNREADABLE: {
    says: "Its receipt could not be read for ten minutes although the chain responds.",
    todo: "Check the endpoints, or add one. It proceeds once its receipt is read.",
  },
  FEE_CAP_REACHED: {
    says: "A replacement would exceed a fee cap.",
    todo: "Wait until fees fall, or raise the cap. It then proceeds automatically.",
  },
  SIGNER_KEY_NOT_FOUND: {
    says: "The signer has no key for the account.",
    todo: "Add the key.",
  },
  REQUEUED_AND_RAN: {
    says: "It was requeued, and is on chain under its old nonce.",
    todo: "Nothing: it is not sent again, and ends automatically.",
  },
  ENDED_AND_RAN: {
    says: "It was final as never executed, and is on chain.",
    todo: "Nothing: it ends automatically.",
  },
  REORGED_AFTER_FINAL: {
    says: "It was final, and its block left the chain. The final attempt is rebroadcast.",
    todo: "Check endpoints and chain. The account is protected until it is final again.",
  },
};

/** Why a nonce of a client waits for an operator. */
export const nonceReasons: Record<string, string> = {
  EXPIRED: "Its reservation expired without a report. Its holder may have signed for it.",
  HASH_RECORDED: "Its holder reported a signed transaction, which is in no block.",
  QUARANTINED: "Its holder does not know whether a transaction for it was sent.",
  RESTORED: "The ledger was restored. Its holder may have signed for it meanwhile.",
  USED_AFTER_RELEASE: "It was released as never signed, and reported as signed afterwards.",
};

export const outcomes: Record<string, string> = {
  REVERTED: "It was included and reverted. Gas was paid.",
  WOULD_REVERT: "The chain reported that it would revert. No nonce was taken.",
  INVALID_TRANSACTION: "The chain reported that it can never succeed. No nonce was taken.",
  POLICY_DENIED: "The policy of its caller denied it in the queue. No nonce was taken.",
  APPROVAL_DENIED: "Another caller denied it. No nonce was taken.",
  APPROVAL_EXPIRED: "No other caller approved it in time. No nonce was taken.",
  GAS_LIMIT_ABOVE_MAXIMUM: "It needs more gas than gas.max_limit. No nonce was taken.",
  PREPARE_TIMEOUT: "It was at the head of its queue for longer than prepare.max_age.",
  DEADLINE: "Its deadline passed before it was executed.",
  SIGNER_KEY_NOT_FOUND: "The signer has no key for the account. No nonce was taken.",
  CANCELLED_BY_CALLER:
    "It was cancelled in the queue, or its cancel transaction was included first.",
  CANCEL_LOST: "A cancellation was requested, but the transaction was included first.",
  NONCE_USED_ELSEWHERE: "An operator failed it after another program used its nonce.",
  RESTORED_UNKNOWN:
    "It was in a ledger that was restored, and may have executed. Check the chain before you " +
    "send the intent again.",
  REQUEUED_AND_RAN: "It was requeued, but had executed before. The receipt is of that attempt.",
  ENDED_AND_RAN: "It was reported as never executed, and executed afterwards.",
};

export const states: Record<string, string> = {
  QUEUED: "Accepted. It has no nonce yet.",
  ALLOCATED: "Its nonce is taken and its attempt signed. No endpoint is known to have it.",
  TRACKING: "An endpoint accepted it.",
  STUCK:
    "It needs a decision by a policy or an operator. It keeps its nonce and is still tracked.",
  CONFIRMED: "Final: executed successfully.",
  FAILED_FINAL: "Final: it reverted, or was never executed.",
  CANCELLED: "Final: it was not executed.",
};

export const subStates: Record<string, string> = {
  PENDING: "Broadcast, in no block.",
  INCLUDED: "In a block, not yet final.",
  BACKING_OFF: "The head of the queue waits for an external condition.",
  UNFUNDED: "The account cannot afford it. It proceeds once the account is funded.",
  AWAITING_APPROVAL: "Another caller must approve it. It holds up no other transaction.",
};

/** A button: its effect, and the input that its dialog requires. */
export interface Action {
  readonly label: string;
  readonly does: string;
  readonly danger?: boolean;
  /** The request needs a reason. */
  readonly reasonRequired?: boolean;
  /** A further confirmation, which makes the action a stronger one. */
  readonly option?: string;
}

export const actions = {
  approve: {
    label: "Approve",
    does:
      "Lets the transaction join the queue of its account, from which it is sent. Check the " +
      "recipient, the amount and the call data first. Its own caller cannot approve it.",
  },
  deny: {
    label: "Deny",
    does: "Fails the transaction. It takes no nonce and is never sent. This cannot be undone.",
    danger: true,
  },
  resume: {
    label: "Resume account",
    does:
      "Ends the pause. Queued transactions get nonces again, and new requests are accepted. If " +
      "a failed transaction caused the pause, review it first.",
  },
  pause: {
    label: "Pause account",
    does:
      "Stops the assignment of nonces. Transactions in flight are tracked to their outcome, " +
      "queued ones wait, and new requests are rejected until the account is resumed.",
  },
  protect: {
    label: "Protect account",
    does:
      "Stops all signing at once, replacements and cancellations included, and rejects new " +
      "requests until an operator decides. Use it if the key may be in use elsewhere.",
    danger: true,
    reasonRequired: true,
  },
  exitResume: {
    label: "Lift: continue at the cursor",
    does:
      "Lifts the protection and continues with the next nonce of the ledger. The account’s " +
      "nonce on chain must agree; otherwise the decision is rejected and nothing changes.",
    reasonRequired: true,
    option:
      "The queued transactions were compared with the chain, and those executed after the " +
      "backup were cancelled (keep queue).",
  },
  exitAlign: {
    label: "Lift: align forward",
    does:
      "Lifts the protection and continues at the account’s settled nonce on chain. The skipped " +
      "nonces are recorded as gaps. It is rejected while a transaction is in flight outside a " +
      "block.",
    danger: true,
    reasonRequired: true,
    option:
      "The queued transactions were compared with the chain, and those executed after the " +
      "backup were cancelled (keep queue).",
  },
  retry: {
    label: "Retry",
    does:
      "Broadcasts it again now, with a new count of attempts. If it is being cancelled, the " +
      "original is broadcast once more, and the first of the two in a block wins.",
    reasonRequired: true,
  },
  bump: {
    label: "Replace with higher fees",
    does:
      "Signs a replacement with the same nonce and higher fees. At most one attempt is " +
      "included.",
    reasonRequired: true,
  },
  cancelStuck: {
    label: "Cancel",
    does:
      "Broadcasts a cancel transaction with the same nonce. The chain decides which of the two " +
      "is included, so the transaction may still execute.",
    danger: true,
    reasonRequired: true,
  },
  fail: {
    label: "Fail",
    does:
      "Ends it as not executed. It is rejected until the other use of its nonce is proven and " +
      "deep enough, so it cannot execute later.",
    danger: true,
    reasonRequired: true,
    option:
      "No endpoint can prove the use of the nonce any longer. I verified that this transaction " +
      "did not use it, and that the use is as deep as the audit depth (unproven).",
  },
  requeue: {
    label: "Requeue",
    does:
      "Returns it to its place in the queue, where it gets another nonce. It is rejected until " +
      "the other use of its nonce is proven and deep enough, so it cannot execute twice.",
    danger: true,
    reasonRequired: true,
    option:
      "No endpoint can prove the use of the nonce any longer. I verified that this transaction " +
      "did not use it, and that the use is as deep as the audit depth (unproven).",
  },
  cancel: {
    label: "Cancel transaction",
    does:
      "Requests that it is not executed. In the queue it ends at once. With a nonce, a cancel " +
      "transaction is broadcast, and the chain decides which of the two is included.",
    danger: true,
  },
  speedUp: {
    label: "Speed up",
    does:
      "Signs a replacement with the same nonce and higher fees, regardless of the bump policy. " +
      "At most one attempt is included.",
  },
  neverSigned: {
    label: "Never signed",
    does:
      "Gives the nonce to the next client that reserves one. Confirm it only if its holder is " +
      "gone for good and never signed a transaction for it: otherwise two transactions compete " +
      "for the nonce. It is rejected if a hash or signed bytes are recorded.",
    danger: true,
    reasonRequired: true,
  },
  fillNonce: {
    label: "Fill",
    does:
      "Uses the nonce for a cancel transaction of the account, if Fencepost has its key. If a " +
      "transaction of the client exists as well, the chain includes one of the two.",
    danger: true,
    reasonRequired: true,
  },
  retryDelivery: {
    label: "Deliver again",
    does:
      "Retries the events of this transaction at once, in order, beginning with the first " +
      "undelivered one.",
  },
  skipDelivery: {
    label: "Skip event",
    does:
      "Gives up the first undelivered event: the receiver never gets it from this sink. The " +
      "events after it are delivered.",
    danger: true,
    reasonRequired: true,
  },
  retryAll: {
    label: "Deliver all again",
    does: "Retries all dead transactions of this sink at once, each in order.",
  },
  resumeSink: {
    label: "Resume sink",
    does: "Continues the deliveries where they stopped. No event is lost.",
  },
} satisfies Record<string, Action>;

/** The meaning of a reason of a transaction. */
export function meaningOf(reason: string, final: boolean): Meaning {
  if (final) {
    return { says: outcomes[reason] ?? "", todo: "" };
  }
  return (
    waits[reason] ?? {
      says: reason === "" ? "" : `The last response to its broadcast was ${reason}.`,
      todo: reason === "" ? "" : "Nothing at first: it is rebroadcast, or replaced.",
    }
  );
}
