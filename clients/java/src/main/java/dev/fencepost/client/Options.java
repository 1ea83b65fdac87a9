package dev.fencepost.client;

import java.time.Duration;
import java.util.Objects;

/** How a client connects and how long it waits. Without any of them it connects in plain text, with the defaults. */
public final class Options {
    Tls tls;
    String token;
    Duration timeout = Duration.ofSeconds(60);
    Duration heartbeat = Duration.ofSeconds(15);
    Duration patience = Duration.ofMinutes(5);

    /** Encrypts the connection. */
    public Options tls(Tls tls) {
        this.tls = tls;
        return this;
    }

    /** Is sent with each call as "authorization: Bearer TOKEN". It needs TLS. */
    public Options token(String token) {
        this.token = token;
        return this;
    }

    /** How long a call may take in all, repetitions included, unless it has a deadline of its own. Default 60 s. A watch has none. */
    public Options timeout(Duration timeout) {
        this.timeout = positive(timeout);
        return this;
    }

    /**
     * How often an idle watch hears from the node, unless its request says; 1 s to 5 min, default 15 s. A watch that hears nothing for three times as long takes
     * its stream for dead.
     */
    public Options heartbeat(Duration heartbeat) {
        this.heartbeat = positive(heartbeat);
        return this;
    }

    /** How long a watch tries to get a stream again before it gives up. Default 5 min. */
    public Options patience(Duration patience) {
        this.patience = positive(patience);
        return this;
    }

    /** A duration in nanoseconds, a hundred years at most: more of them do not fit. */
    static long nanos(Duration duration) {
        Duration most = Duration.ofDays(36_500);
        return duration.compareTo(most) > 0 ? most.toNanos() : duration.isNegative() ? 0 : duration.toNanos();
    }

    private static Duration positive(Duration duration) {
        if (Objects.requireNonNull(duration).isNegative() || duration.isZero()) {
            throw new IllegalArgumentException(duration + " is no time to wait; give a positive duration");
        }
        return duration;
    }
}
