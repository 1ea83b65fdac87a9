package dev.fencepost.client;

import dev.fencepost.v1.TxEvent;
import dev.fencepost.v1.WatchTxResponse;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** The resume token of a watch, and the state needed to repeat nothing. */
final class Position {
    private static final int MAX_HELD = 1_000_000;

    private String token;

    /** Snapshots before the first token; a new stream repeats them. */
    private List<WatchTxResponse> held = new ArrayList<>();

    /** Versions shown by snapshots, until a later event. */
    private final Map<String, Long> shown = new HashMap<>();

    Position(String token) {
        this.token = token;
    }

    String token() {
        return token;
    }

    /** Drops the snapshots that a new stream repeats. */
    void rewind() {
        held = new ArrayList<>();
    }

    /** Returns the messages that can be delivered. */
    List<WatchTxResponse> take(WatchTxResponse message) {
        if (message.getResumeToken().isEmpty() && token.isEmpty()) {
            if (held.size() == MAX_HELD) {
                throw new IllegalStateException(
                        "more than "
                                + MAX_HELD
                                + " transactions are not final; watch single submitters");
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
