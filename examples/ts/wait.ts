// Creates a transaction and prints its outcome: npm run wait -- TARGET SUBMITTER REQUEST_ID
import process from "node:process";
import { Code, connect, ErrorReason, Executed, FencepostError, TxState } from "@fencepost/client";

const [target, submitter, requestId] = process.argv.slice(2);
const client = connect(target!);
const payload = { to: "0x00000000000000000000000000000000000000aa", value: "1" };
try {
  const signal = AbortSignal.timeout(600_000);
  const tx = await client.createAndWait({ submitter, requestId, payload }, { signal });
  if (tx.executed === Executed.SUCCESS) {
    console.log(TxState[tx.state], tx.txHash);
  } else {
    console.log(TxState[tx.state], tx.reason, tx.lastError, "may be sent again:", tx.retrySafe);
  }
} catch (e) {
  if (!(e instanceof FencepostError)) {
    console.log("not an API error:", e); // for example the reason of the signal
  } else if (e.reason === ErrorReason.INVALID_FIELD) {
    console.log("correct the request:", e.violations);
  } else if (e.reason === ErrorReason.QUEUE_FULL) {
    console.log("retry the call in", e.retryAfterMs, "ms");
  } else {
    console.log(Code[e.code], e.reasonName, e.message);
  }
}
client.close();
