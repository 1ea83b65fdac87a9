import { duration, millis } from "../format";
import { useLive, useNow } from "../live";
import { Age, Badge, Fields, Loaded, Table } from "../parts";
import { useSession } from "../session";
import { OperatorsOnly } from "./operators";

export function NodesPage() {
  const { status } = useSession();
  return (
    <>
      <h1>Nodes and leases</h1>
      <OperatorsOnly>
        <Nodes />
      </OperatorsOnly>
      <h2>Totals</h2>
      <p className="hint">Counted over the accounts to which your caller has a right.</p>
      <Totals key={status.nodeId} />
    </>
  );
}

function Nodes() {
  const live = useLive("nodes", 2000, (client, signal) => client.status.listNodes({}, { signal }));
  const now = useNow();
  return (
    <Loaded live={live} what="Reading the nodes">
      {({ nodes }) => (
        <Table
          caption="Live nodes. A node without a heartbeat loses its leases, and leaves the list."
          rows={nodes}
          keyOf={(node) => node.nodeId}
          empty="No node is live."
          columns={[
            { name: "Node", cell: (node) => <code>{node.nodeId}</code> },
            {
              name: "Leases",
              number: true,
              cell: (node) => String(node.leases),
            },
            {
              name: "Acquires leases",
              cell: (node) =>
                node.accepting ? (
                  <Badge tone="good">yes</Badge>
                ) : (
                  <Badge tone="warn">no: full or stopping</Badge>
                ),
            },
            { name: "Chains", cell: (node) => node.chainIds.join(", ") },
            { name: "Up for", number: true, cell: (node) => <Age of={node.startTime} /> },
            {
              name: "Heartbeat due in",
              number: true,
              cell: (node) => (node.expireTime ? duration(millis(node.expireTime) - now) : "–"),
            },
          ]}
        />
      )}
    </Loaded>
  );
}

function Totals() {
  const live = useLive("status", 10_000, (client, signal) =>
    client.status.getStatus({}, { signal }),
  );
  return (
    <Loaded live={live} what="Counting">
      {({ totals }) => (
        <Fields
          rows={[
            ["accounts", String(totals?.submitters ?? 0)],
            ["with an owner", String(totals?.owned ?? 0)],
            ["protected", String(totals?.protected ?? 0)],
            ["paused", String(totals?.paused ?? 0)],
            ["without funds", String(totals?.unfunded ?? 0)],
            [
              "transactions queued",
              `${totals?.queuedIsAtLeast ? "more than " : ""}${totals?.queued ?? 0}`,
            ],
            ["in flight", String(totals?.inFlight ?? 0)],
            ["stuck", String(totals?.stuck ?? 0)],
            ["nonces that need an operator", String(totals?.undecidedNonces ?? 0)],
            ["oldest head of a queue", <Age of={totals?.oldestQueueTime} />],
          ]}
        />
      )}
    </Loaded>
  );
}
