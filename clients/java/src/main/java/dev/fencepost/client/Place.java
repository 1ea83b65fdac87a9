package dev.fencepost.client;

import dev.fencepost.v1.TxEvent;
import dev.fencepost.v1.WatchTxResponse;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** Where a watch stands, and what it must remember to repeat nothing. */
final class Place {
    private static final int MAX_HELD = 1_000_000;

    private String token;
    /** Snapshots before the first token: if the stream breaks there, it begins anew, and they are sent again. */
    private List<WatchTxResponse> held = new ArrayList<>();
    /** Versions that snapshots showed of transactions, until an event goes beyond. */
    private final Map<String, Long> shown = new HashMap<>();

    Place(String token) {
        this.token = token;
    }

    String token() {
        return token;
    }

    /** Forgets what a new stream tells again. */
    void rewind() {
        held = new ArrayList<>();
    }

    /** Returns what can be delivered now. */
    List<WatchTxResponse> take(WatchTxResponse message) {
        if (message.getResumeToken().isEmpty() && token.isEmpty()) {
            if (held.size() == MAX_HELD) {
                throw new IllegalStateException("more than " + MAX_HELD + " transactions are not final; watch single submitters");
            }
            held.add(message);
            return List.of();
        }
        List<WatchTxResponse> ready = held;
        held = new ArrayList<>();
        ready.forEach(m -> shown.put(m.getSnapshot().getTxId(), m.getSnapshot().getVersion()));
        if (!message.getResumeToken().isEmpty()) {
            token = message.getResumeToken();
        }
        if (message.hasEvent()) {
            TxEvent event = message.getEvent();
            if (event.getSeq() <= shown.getOrDefault(event.getTxId(), 0L)) {
                return ready;
            }
            shown.remove(event.getTxId());
        }
        ready.add(message);
        return ready;
    }
}
