// Prints what a watch of a submitter tells, until it is killed. The end-to-end tests hurt its connection and compare what it printed with the ledger.
import process from "node:process";
import { connect } from "@fencepost/client";

const [target = "", submitter = ""] = process.argv.slice(2);
for await (const { message } of connect(target).watch({ target: { case: "submitter", value: submitter } })) {
  console.log(message.case === "event" ? `event ${message.value.txId} ${message.value.seq}` : "other");
}
