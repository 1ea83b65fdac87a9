package dev.fencepost.client;

import dev.fencepost.v1.WatchTxRequest;
import dev.fencepost.v1.WatchTxResponse;

/**
 * Prints the messages of a watch until it is killed. End-to-end tests disturb its connection and
 * compare its output with the ledger.
 */
public final class Watcher {
    private Watcher() {}

    public static void main(String[] arguments) {
        try (FencepostClient client = FencepostClient.connect(arguments[0]);
                Watch watch =
                        client.watch(
                                WatchTxRequest.newBuilder().setSubmitter(arguments[1]).build())) {
            for (WatchTxResponse m : watch) {
                System.out.println(
                        m.hasEvent()
                                ? "event " + m.getEvent().getTxId() + " " + m.getEvent().getSeq()
                                : "other");
            }
        }
    }
}
