import dev.fencepost.client.FencepostClient;
import dev.fencepost.client.FencepostException;
import dev.fencepost.v1.CreateTxRequest;
import dev.fencepost.v1.Executed;
import dev.fencepost.v1.Payload;
import dev.fencepost.v1.Tx;
import java.time.Duration;

/** Creates a transaction and prints its outcome. Arguments: TARGET SUBMITTER REQUEST_ID. */
class Wait {
    public static void main(String[] arguments) {
        try (FencepostClient client = FencepostClient.connect(arguments[0])) {
            Payload payload = Payload.newBuilder()
                .setTo("0x00000000000000000000000000000000000000aa").setValue("1").build();
            CreateTxRequest request = CreateTxRequest.newBuilder()
                .setSubmitter(arguments[1]).setRequestId(arguments[2]).setPayload(payload).build();
            try {
                Tx tx = client.createAndWait(request, Duration.ofMinutes(10));
                if (tx.getExecuted() == Executed.EXECUTED_SUCCESS) {
                    System.out.println(tx.getState() + " " + tx.getTxHash());
                } else {
                    System.out.println(tx.getState() + " " + tx.getReason() + " "
                        + tx.getLastError() + " may be sent again: " + tx.getRetrySafe());
                }
            } catch (FencepostException e) {
                System.out.println(switch (e.reason()) {
                    case ERROR_REASON_INVALID_FIELD -> "correct the request: " + e.violations();
                    case ERROR_REASON_QUEUE_FULL -> "retry the call in " + e.retryAfter();
                    default -> e.code() + " " + e.reasonName() + " " + e.getMessage();
                });
            }
        }
    }
}
