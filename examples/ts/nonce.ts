// Sends a transaction with a reserved nonce through a wallet (eth_sendTransaction), and waits until
// it is final: npm run nonce -- TARGET SUBMITTER WALLET_URL
import process from "node:process";
import { connect, NonceState, type NonceContext } from "@fencepost/client";

const [target, submitter, wallet] = process.argv.slice(2);
const client = connect(target!);
const handle = await client.withNonce(submitter!, async (n) => ({ txHash: await send(n) }));
const { nonce } = await handle.wait();
console.log(nonce.nonce, NonceState[nonce.state], nonce.txHashes);
client.close();

/** Sends 1 wei to the account itself. An error does not show whether the wallet signed. */
async function send(n: NonceContext): Promise<string> {
  const transaction = {
    from: n.from,
    to: n.from,
    value: "0x1",
    nonce: `0x${n.nonce.toString(16)}`,
    chainId: `0x${n.chainId.toString(16)}`,
  };
  const answer = await fetch(wallet!, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({
      jsonrpc: "2.0",
      id: 1,
      method: "eth_sendTransaction",
      params: [transaction],
    }),
  });
  const { result, error } = (await answer.json()) as {
    result?: string;
    error?: { message: string };
  };
  if (result === undefined) {
    throw new Error(`wallet: ${error?.message}`);
  }
  return result;
}
