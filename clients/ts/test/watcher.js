// Prints what a watch of a submitter tells, until it is killed. The end-to-end tests hurt its connection and compare what it printed with the ledger.
// With --web it is the entry for browsers that watches, with the fetch of Node.js.
import process from "node:process";
import { connect } from "@fencepost/client";
import { connect as connectWeb } from "@fencepost/client/web";

const web = process.argv.includes("--web");
const [target = "", submitter = ""] = process.argv.slice(web ? 3 : 2);
const client = web ? connectWeb(`http://${target}`) : connect(target);
for await (const { message } of client.watch({ target: { case: "submitter", value: submitter } })) {
  console.log(message.case === "event" ? `event ${message.value.txId} ${message.value.seq}` : "other");
}
