package dev.fencepost.client;

import java.time.Duration;
import java.util.Objects;

/** Options of a client. The defaults are a plain-text connection and the values below. */
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

    /** Sent with each call as "authorization: Bearer TOKEN". It requires TLS. */
    public Options token(String token) {
        this.token = token;
        return this;
    }

    /**
     * Limits a call including its retries, unless it has its own deadline. Default 60 s. It does
     * not apply to a watch.
     */
    public Options timeout(Duration timeout) {
        this.timeout = positive(timeout);
        return this;
    }

    /**
     * Interval of heartbeats on an idle watch, unless its request sets one; 1 s to 5 min, default
     * 15 s. A stream that is silent for three intervals counts as dead.
     */
    public Options heartbeat(Duration heartbeat) {
        this.heartbeat = positive(heartbeat);
        return this;
    }

    /** Limits how long a watch tries to get a new stream. Default 5 min. */
    public Options patience(Duration patience) {
        this.patience = positive(patience);
        return this;
    }

    /** Converts a duration to nanoseconds, at most a hundred years, because more would overflow. */
    static long nanos(Duration duration) {
        Duration most = Duration.ofDays(36_500);
        return duration.compareTo(most) > 0
                ? most.toNanos()
                : duration.isNegative() ? 0 : duration.toNanos();
    }

    private static Duration positive(Duration duration) {
        if (Objects.requireNonNull(duration).isNegative() || duration.isZero()) {
            throw new IllegalArgumentException(
                    duration + " is not positive; use a positive duration");
        }
        return duration;
    }
}
