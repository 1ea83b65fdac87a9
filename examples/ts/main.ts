// Creates a transaction and prints its events until it is final:
// npm start -- TARGET SUBMITTER REQUEST_ID
import process from "node:process";
import { connect, TxEventKind, TxState, watchTx } from "@fencepost/client";

const [target, submitter, requestId] = process.argv.slice(2);
const client = connect(target!);
const payload = { to: "0x00000000000000000000000000000000000000aa", value: "1" };
const { tx } = await client.txs.createTx({ submitter, requestId, payload });
for await (const { message } of client.watch(watchTx(tx!.txId))) {
  if (message.case === "event") {
    const { seq, kind, state, txHash } = message.value;
    console.log(seq, TxEventKind[kind], TxState[state], txHash);
  }
}
client.close();
