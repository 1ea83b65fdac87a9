// Prints the messages of a watch until it is killed. End-to-end tests disturb its connection and
// compare its output with the ledger. --web uses the browser entry, with the fetch of Node.js.
import process from "node:process";
import { connect } from "@fencepost/client";
import { connect as connectWeb } from "@fencepost/client/web";

const web = process.argv.includes("--web");
const [target = "", submitter = ""] = process.argv.slice(web ? 3 : 2);
const client = web ? connectWeb(`http://${target}`) : connect(target);
for await (const { message } of client.watch({ target: { case: "submitter", value: submitter } })) {
  console.log(
    message.case === "event" ? `event ${message.value.txId} ${message.value.seq}` : "other",
  );
}
