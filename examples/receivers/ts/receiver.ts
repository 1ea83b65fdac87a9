// Receives events of Fencepost over HTTP, verifies their signatures, and prints each event once:
// npm start -- PORT SECRET_FILE, a file that holds whsec_...
import { readFileSync } from "node:fs";
import { createServer, type IncomingMessage } from "node:http";
import process from "node:process";
import { Webhook, WebhookVerificationError } from "standardwebhooks";

// The part of a structured CloudEvent that this program uses.
interface Event {
  id: string;
  type: string;
  data: { requestId?: string };
}

// Bounds a delivery, in bytes. Events are a few kilobytes.
const maxBody = 1 << 20;

const [port, secretFile] = process.argv.slice(2);
const verifier = new Webhook(readFileSync(secretFile!, "utf8").trim());
// A real receiver stores id and effect in one transaction.
const seen = new Set<string>();

async function read(request: IncomingMessage): Promise<string> {
  const parts: Buffer[] = [];
  let size = 0;
  for await (const part of request) {
    size += part.length;
    if (size > maxBody) {
      throw new Error("body is too large");
    }
    parts.push(part);
  }
  return Buffer.concat(parts).toString("utf8");
}

// Returns the HTTP status: 2xx only for an event that was processed.
async function receive(request: IncomingMessage): Promise<number> {
  try {
    const body = await read(request);
    const event = verifier.verify(body, request.headers as Record<string, string>) as Event;
    if (!seen.has(event.id)) {
      seen.add(event.id);
      console.log(event.id, event.type, event.data.requestId ?? "");
    }
    return 204;
  } catch (error) {
    return error instanceof WebhookVerificationError ? 401 : 400;
  }
}

createServer(async (request, response) => {
  response.writeHead(await receive(request)).end();
}).listen(Number(port), "127.0.0.1");
