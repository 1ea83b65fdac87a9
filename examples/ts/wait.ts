// Creates a transaction, waits until it is final and says how it ended: npm run wait -- TARGET SUBMITTER REQUEST_ID
import process from "node:process";
import { Code, connect, ErrorReason, Executed, FencepostError, TxState } from "@fencepost/client";

const [target, submitter, requestId] = process.argv.slice(2);
const client = connect(target!);
const payload = { to: "0x00000000000000000000000000000000000000aa", value: "1" };
try {
  const tx = await client.createAndWait({ submitter, requestId, payload }, { signal: AbortSignal.timeout(600_000) });
  if (tx.executed === Executed.SUCCESS) {
    console.log(TxState[tx.state], tx.txHash);
  } else {
    console.log(TxState[tx.state], tx.reason, tx.lastError, "may be sent again:", tx.retrySafe);
  }
} catch (e) {
  if (!(e instanceof FencepostError)) {
    console.log("no error of a call:", e); // what the signal says, for example
  } else if (e.reason === ErrorReason.INVALID_FIELD) {
    console.log("correct the request:", e.violations);
  } else if (e.reason === ErrorReason.QUEUE_FULL) {
    console.log("the same call again, in", e.retryAfterMs, "ms");
  } else {
    console.log(Code[e.code], e.reasonName, e.message);
  }
}
client.close();
