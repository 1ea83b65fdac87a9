import dev.fencepost.client.FencepostClient;
import dev.fencepost.client.Watch;
import dev.fencepost.v1.CreateTxRequest;
import dev.fencepost.v1.Payload;
import dev.fencepost.v1.TxEvent;
import dev.fencepost.v1.WatchTxResponse;

/** Creates a transaction and prints its events. Arguments: TARGET SUBMITTER REQUEST_ID. */
class Example {
    public static void main(String[] arguments) {
        try (FencepostClient client = FencepostClient.connect(arguments[0])) {
            Payload payload = Payload.newBuilder()
                .setTo("0x00000000000000000000000000000000000000aa").setValue("1").build();
            CreateTxRequest request = CreateTxRequest.newBuilder()
                .setSubmitter(arguments[1]).setRequestId(arguments[2]).setPayload(payload).build();
            String id = client.txs().createTx(request).getTx().getTxId();
            for (WatchTxResponse m : client.watch(FencepostClient.watchTx(id))) {
                if (m.hasEvent()) {
                    TxEvent e = m.getEvent();
                    System.out.println(
                        e.getSeq() + " " + e.getKind() + " " + e.getState() + " " + e.getTxHash());
                }
            }
        }
    }
}
