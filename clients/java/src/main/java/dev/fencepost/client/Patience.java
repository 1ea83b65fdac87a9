package dev.fencepost.client;

import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ClientCall;
import io.grpc.ClientInterceptor;
import io.grpc.Deadline;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.Status;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;

/**
 * Bounds calls in time, and repeats one that fails with RESOURCE_EXHAUSTED when a node says when to. The service config repeats what is UNAVAILABLE; it cannot see
 * the details of an error. Streams pass untouched: a watch resumes.
 */
final class Patience implements ClientInterceptor {
    /** How often a call is made in all. */
    private static final int MAX_ATTEMPTS = 5;

    /** Spreads calls over the addresses of the target, and repeats those that are UNAVAILABLE: the request did not get there, or may be repeated. */
    static final Map<String, ?> SERVICE_CONFIG = Map.of(
            "loadBalancingConfig", List.of(Map.of("round_robin", Map.of())),
            "methodConfig", List.of(
                    Map.of(
                            "name", List.of(Map.of("service", "fencepost.v1.TxService"), Map.of("service", "fencepost.v1.SubmitterService")),
                            "retryPolicy", Map.of(
                                    "maxAttempts", (double) MAX_ATTEMPTS,
                                    "initialBackoff", "0.2s",
                                    "maxBackoff", "5s",
                                    "backoffMultiplier", 3.0,
                                    "retryableStatusCodes", List.of("UNAVAILABLE"))),
                    Map.of("name", List.of(Map.of("service", "fencepost.v1.TxService", "method", "WatchTx")))));

    private final Duration timeout;
    private final ScheduledExecutorService timer;

    Patience(Duration timeout, ScheduledExecutorService timer) {
        this.timeout = timeout;
        this.timer = timer;
    }

    @Override
    public <Q, A> ClientCall<Q, A> interceptCall(MethodDescriptor<Q, A> method, CallOptions options, Channel next) {
        if (method.getType() != MethodDescriptor.MethodType.UNARY) {
            return next.newCall(method, options);
        }
        CallOptions bounded = options.getDeadline() == null ? options.withDeadlineAfter(timeout.toNanos(), TimeUnit.NANOSECONDS) : options;
        return new PatientCall<>(method, bounded, next);
    }

    /** A call over all of its attempts. What the caller said is kept, to be said again. */
    private final class PatientCall<Q, A> extends ClientCall<Q, A> {
        private final MethodDescriptor<Q, A> method;
        private final CallOptions options;
        private final Channel next;

        private ClientCall<Q, A> attempt;
        private int attempts;
        private Listener<A> listener;
        private Metadata headers;
        private int requested;
        private Q message;
        private boolean cancelled;

        PatientCall(MethodDescriptor<Q, A> method, CallOptions options, Channel next) {
            this.method = method;
            this.options = options;
            this.next = next;
        }

        @Override
        public synchronized void start(Listener<A> listener, Metadata headers) {
            this.listener = listener;
            this.headers = headers;
            begin();
        }

        private void begin() {
            attempts++;
            attempt = next.newCall(method, options);
            Metadata copy = new Metadata();
            copy.merge(headers);
            attempt.start(new Hearing(), copy);
        }

        private synchronized void again() {
            if (cancelled) {
                listener.onClose(Status.CANCELLED.withDescription("the caller cancelled the call"), new Metadata());
                return;
            }
            begin();
            attempt.request(requested);
            attempt.sendMessage(message);
            attempt.halfClose();
        }

        @Override
        public synchronized void request(int count) {
            requested += count;
            attempt.request(count);
        }

        @Override
        public synchronized void sendMessage(Q message) {
            this.message = message;
            attempt.sendMessage(message);
        }

        @Override
        public synchronized void halfClose() {
            attempt.halfClose();
        }

        @Override
        public synchronized void cancel(String reason, Throwable cause) {
            cancelled = true;
            if (attempt != null) {
                attempt.cancel(reason, cause);
            }
        }

        private synchronized boolean repeats(Status status, Metadata trailers) {
            if (status.getCode() != Status.Code.RESOURCE_EXHAUSTED || cancelled || attempts == MAX_ATTEMPTS) {
                return false;
            }
            FencepostException e = FencepostException.of(status.asRuntimeException(trailers));
            Deadline deadline = options.getDeadline();
            long delay = e.retryAfter().toNanos();
            if (!e.asksForPatience() || deadline != null && deadline.timeRemaining(TimeUnit.NANOSECONDS) < delay) {
                return false;
            }
            timer.schedule(this::again, delay, TimeUnit.NANOSECONDS);
            return true;
        }

        /** Tells the caller nothing before it is known that there is no other attempt. */
        private final class Hearing extends Listener<A> {
            private Metadata headers;

            @Override
            public void onHeaders(Metadata headers) {
                this.headers = headers;
            }

            @Override
            public void onMessage(A answer) {
                tellHeaders();
                listener.onMessage(answer);
            }

            @Override
            public void onClose(Status status, Metadata trailers) {
                if (!repeats(status, trailers)) {
                    tellHeaders();
                    listener.onClose(status, trailers);
                }
            }

            @Override
            public void onReady() {
                listener.onReady();
            }

            private void tellHeaders() {
                if (headers != null) {
                    listener.onHeaders(headers);
                    headers = null;
                }
            }
        }
    }
}
