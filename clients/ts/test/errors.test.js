import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { BinaryWriter } from "@bufbuild/protobuf/wire";
import { ConnectError } from "@connectrpc/connect";
import { Code, FencepostError } from "@fencepost/client";

/**
 * An error as a transport throws it.
 * @param {Code} code
 * @param {string} reason
 * @param {number} seconds
 */
function thrown(code, reason, seconds) {
  const error = new ConnectError("so it is", code);
  if (reason !== "") {
    const info = new BinaryWriter().tag(1, 2).string(reason).tag(2, 2).string("fencepost.dev").finish();
    error.details.push({ type: "google.rpc.ErrorInfo", value: info });
  }
  if (seconds > 0) {
    const duration = new BinaryWriter().tag(1, 0).int64(seconds).finish();
    error.details.push({ type: "google.rpc.RetryInfo", value: new BinaryWriter().tag(1, 2).bytes(duration).finish() });
  }
  return error;
}

// One table, which the tests of all languages go through.
test("which errors a watch outlives", () => {
  const lines = readFileSync(new URL("../../resumable.csv", import.meta.url), "utf8").trim().split("\n").slice(1);
  const codes = new Map(Object.entries(Code).map(([name, code]) => [name.toUpperCase(), code]));
  for (const line of lines) {
    const [name = "", rule = ""] = line.split(",");
    const code = codes.get(name === "CANCELLED" ? "CANCELED" : name.replaceAll("_", ""));
    assert.ok(typeof code === "number", name);
    for (const reason of ["", "NODE_BUSY"]) {
      for (const seconds of [0, 1]) {
        const want = new Map([["always", true], ["never", false], ["without a reason", reason === ""], ["with a delay", seconds > 0]]).get(rule);
        const error = FencepostError.from(thrown(code, reason, seconds));
        assert.deepEqual([error.reasonName, error.retryAfterMs], [reason, 1000 * seconds]);
        assert.equal(error.resumable, want, `${line}: reason "${reason}", ${seconds} s`);
      }
    }
  }
  assert.equal(lines.length, 16);
});
