import type { Chain } from "@fencepost/client/web";
import { duration } from "../format";
import { useLive } from "../live";
import { Badge, Loaded, Table } from "../parts";
import { OperatorsOnly } from "./operators";

export function ChainsPage() {
  return (
    <>
      <h1>Chains and endpoints</h1>
      <OperatorsOnly>
        <Chains />
      </OperatorsOnly>
    </>
  );
}

function Chains() {
  const live = useLive("chains", 2000, (client, signal) =>
    client.status.listChains({}, { signal }),
  );
  return (
    <Loaded live={live} what="Reading the chains">
      {({ nodeId, chains }) => (
        <>
          <p className="hint">
            As node <code>{nodeId}</code> sees them. Addresses of endpoints are secrets; they have
            the numbers of the configuration.
          </p>
          {chains.map((chain) => (
            <ChainSection key={chain.name} chain={chain} />
          ))}
        </>
      )}
    </Loaded>
  );
}

function ChainSection({ chain }: { chain: Chain }) {
  const title = `${chain.name}, chain id ${chain.chainId}`;
  return (
    <section aria-label={title}>
      <h2>{title}</h2>
      <Table
        caption={`Endpoints of ${chain.name}`}
        rows={chain.endpoints}
        keyOf={(endpoint) => endpoint.name}
        empty="No endpoint is configured."
        columns={[
          { name: "Endpoint", cell: (e) => e.name },
          {
            name: "State",
            cell: (e) =>
              e.healthy ? (
                <Badge tone="good">healthy</Badge>
              ) : (
                <Badge tone="bad">{e.outcomeClass || "failing"}</Badge>
              ),
          },
          { name: "Newest block", number: true, cell: (e) => String(e.head) },
          {
            name: "Last failure",
            cell: (e) =>
              e.healthy
                ? "–"
                : `${e.reason}; next try in ${duration(Number(e.retryDelay?.seconds ?? 0) * 1000)}`,
          },
          {
            name: "Calls per request",
            number: true,
            cell: (e) => `${e.batchLimit}${e.batchReason ? ` (${e.batchReason})` : ""}`,
          },
        ]}
      />
    </section>
  );
}
