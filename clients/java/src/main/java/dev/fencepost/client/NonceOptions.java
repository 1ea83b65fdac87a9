package dev.fencepost.client;

import java.time.Duration;
import java.util.UUID;

/** Options of {@link FencepostClient#withNonce}. */
public final class NonceOptions {
    /** The default holder of reservations. No other process has the same. */
    private static final String THIS_PROCESS =
            "java/" + ProcessHandle.current().pid() + "/" + UUID.randomUUID();

    String requestId = UUID.randomUUID().toString();
    String holder = THIS_PROCESS;
    Duration ttl = Duration.ofSeconds(30);

    /**
     * Names the reservation; default: a random one. A repeated call with the same id gets the same
     * nonce. While it is reserved, its handler must then sign the same transaction; after that, the
     * call returns its handle and runs no handler.
     */
    public NonceOptions requestId(String id) {
        requestId = id;
        return this;
    }

    /**
     * Names this process; default: a name of its own. While the nonce of a requestId is reserved,
     * another holder gets an error (IDEMPOTENCY_KEY_REUSED), so that its handler does not run as
     * well.
     */
    public NonceOptions holder(String name) {
        holder = name;
        return this;
    }

    /**
     * Time until the reservation of a process that died expires; at least 1 s, default 30 s. While
     * the handler runs, the reservation is extended.
     */
    public NonceOptions ttl(Duration duration) {
        ttl = duration;
        return this;
    }
}
