package dev.fencepost.client;

import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ClientCall;
import io.grpc.ClientInterceptor;
import io.grpc.Context;
import io.grpc.Deadline;
import io.grpc.ForwardingClientCall.SimpleForwardingClientCall;
import io.grpc.ForwardingClientCallListener.SimpleForwardingClientCallListener;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.Status;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Executor;
import java.util.concurrent.ForkJoinPool;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.TimeUnit;

/**
 * Limits calls by their timeout, and retries RESOURCE_EXHAUSTED if the node sends a delay. The
 * service config retries UNAVAILABLE; it cannot read error details. Streams are not retried: a
 * watch resumes them. All calls end with the client.
 */
final class CallPolicy implements ClientInterceptor {
    /** Limits the attempts of a call. */
    private static final int MAX_ATTEMPTS = 5;

    /** The error of calls and watches of a closed client. */
    static final Status CLOSED =
            Status.CANCELLED
                    .withDescription("the client is closed; connect another one")
                    .withCause(Own.MARK);

    /**
     * Marks an end caused by the client or its caller, because the network can cause the same code.
     * It has no stack trace; its cause is the caller's.
     */
    static final class Own extends RuntimeException {
        private static final long serialVersionUID = 1;
        private static final Own MARK = new Own(null);

        private Own(Throwable cause) {
            super("ended on this side", cause, false, false);
        }

        static Throwable by(Throwable cause) {
            return cause == null ? MARK : cause instanceof Own ? cause : new Own(cause);
        }
    }

    /** Spreads calls over the addresses of the target, and retries UNAVAILABLE. */
    static final Map<String, ?> SERVICE_CONFIG = serviceConfig();

    private static Map<String, ?> serviceConfig() {
        List<Map<String, String>> services =
                List.of(
                        Map.of("service", "fencepost.v1.TxService"),
                        Map.of("service", "fencepost.v1.SubmitterService"),
                        Map.of("service", "fencepost.v1.NonceService"));
        Map<String, ?> retries =
                Map.of(
                        "maxAttempts",
                        (double) MAX_ATTEMPTS,
                        "initialBackoff",
                        "0.2s",
                        "maxBackoff",
                        "5s",
                        "backoffMultiplier",
                        3.0,
                        "retryableStatusCodes",
                        List.of("UNAVAILABLE"));
        Map<String, String> watch =
                Map.of("service", "fencepost.v1.TxService", "method", "WatchTx");
        return Map.of(
                "loadBalancingConfig",
                List.of(Map.of("round_robin", Map.of())),
                "methodConfig",
                List.of(
                        Map.of("name", services, "retryPolicy", retries),
                        Map.of("name", List.of(watch))));
    }

    private final Duration timeout;
    private final ScheduledExecutorService timer;

    /** Pending calls. */
    private final Set<ClientCall<?, ?>> calls = ConcurrentHashMap.newKeySet();

    private volatile boolean closed;

    CallPolicy(Duration timeout, ScheduledExecutorService timer) {
        this.timeout = timeout;
        this.timer = timer;
    }

    @Override
    public <Q, A> ClientCall<Q, A> interceptCall(
            MethodDescriptor<Q, A> method, CallOptions options, Channel next) {
        if (closed) {
            return new RejectedCall<>(options);
        }
        if (method.getType() != MethodDescriptor.MethodType.UNARY) {
            return new OpenCall<>(next.newCall(method, options));
        }
        CallOptions bounded =
                options.getDeadline() == null
                        ? options.withDeadlineAfter(Options.nanos(timeout), TimeUnit.NANOSECONDS)
                        : options;
        return new RetriedCall<>(method, bounded, next);
    }

    /** Ends pending calls, and rejects later ones. */
    void close() {
        closed = true;
        calls.forEach(call -> call.cancel(CLOSED.getDescription(), null));
    }

    /** Closes the listener of a call, which is the only way to wake a thread in a blocking stub. */
    private static void closeListener(
            CallOptions options, ClientCall.Listener<?> listener, Status status) {
        Executor executor =
                options.getExecutor() == null ? ForkJoinPool.commonPool() : options.getExecutor();
        executor.execute(() -> listener.onClose(status, new Metadata()));
    }

    /** Marks the end of a call whose context was cancelled as the caller's. */
    private static Status endIn(Context context, Status status) {
        return status.getCode() == Status.Code.CANCELLED && context.isCancelled()
                ? status.withCause(Own.by(status.getCause()))
                : status;
    }

    /** A call of a closed client. */
    private static final class RejectedCall<Q, A> extends ClientCall<Q, A> {
        private final CallOptions options;

        RejectedCall(CallOptions options) {
            this.options = options;
        }

        @Override
        public void start(Listener<A> listener, Metadata headers) {
            closeListener(options, listener, CLOSED);
        }

        @Override
        public void request(int count) {}

        @Override
        public void cancel(String reason, Throwable cause) {}

        @Override
        public void halfClose() {}

        @Override
        public void sendMessage(Q message) {}
    }

    /** A stream. */
    private final class OpenCall<Q, A> extends SimpleForwardingClientCall<Q, A> {
        private final Context context = Context.current();
        private volatile boolean over;

        OpenCall(ClientCall<Q, A> call) {
            super(call);
        }

        @Override
        public void cancel(String reason, Throwable cause) {
            super.cancel(reason, Own.by(cause));
        }

        @Override
        public void start(Listener<A> listener, Metadata headers) {
            super.start(
                    new SimpleForwardingClientCallListener<>(listener) {
                        @Override
                        public void onClose(Status status, Metadata trailers) {
                            over = true;
                            calls.remove(OpenCall.this);
                            super.onClose(endIn(context, status), trailers);
                        }
                    },
                    headers);
            // Not earlier: an unstarted call must not be cancelled.
            calls.add(this);
            if (over) {
                calls.remove(this);
            } else if (closed) {
                cancel(CLOSED.getDescription(), null);
            }
        }
    }

    /** A call with all its attempts. It keeps the request to send it again. */
    private final class RetriedCall<Q, A> extends ClientCall<Q, A> {
        private final MethodDescriptor<Q, A> method;
        private final CallOptions options;
        private final Channel next;
        private final Context context = Context.current();
        private final Context.CancellationListener ending = ended -> endPause();
        private final LastFailure last = new LastFailure();

        private ClientCall<Q, A> attempt;
        private int attempts;
        private Listener<A> listener;
        private Metadata headers;
        private int requested;
        private Q message;
        private boolean cancelled;

        /** The delay before the next attempt; null during one. */
        private ScheduledFuture<?> pause;

        RetriedCall(MethodDescriptor<Q, A> method, CallOptions options, Channel next) {
            this.method = method;
            this.options = options.withStreamTracerFactory(last);
            this.next = next;
        }

        @Override
        public synchronized void start(Listener<A> listener, Metadata headers) {
            this.listener = listener;
            this.headers = headers;
            calls.add(this);
            begin();
            context.addListener(ending, Runnable::run);
            if (closed) {
                cancel(CLOSED.getDescription(), null);
            }
        }

        private void begin() {
            attempts++;
            attempt = next.newCall(method, options);
            Metadata copy = new Metadata();
            copy.merge(headers);
            attempt.start(new AttemptListener(), copy);
        }

        /**
         * Ends the delay of a call whose context was cancelled: the next attempt then ends
         * immediately, with gRPC's error.
         */
        private synchronized void endPause() {
            if (pause != null && pause.cancel(false)) {
                context.run(this::again);
            }
        }

        private synchronized void again() {
            if (cancelled) {
                return; // the caller knows
            }
            pause = null;
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
        public void cancel(String reason, Throwable cause) {
            if (cancelsPause(reason, Own.by(cause))) {
                forget();
                closeListener(
                        options,
                        listener,
                        Status.CANCELLED.withDescription(reason).withCause(Own.by(cause)));
            }
        }

        private void forget() {
            calls.remove(this);
            context.removeListener(ending);
        }

        /**
         * Cancels the attempt, which reports its end. Returns whether there was a delay instead.
         */
        private synchronized boolean cancelsPause(String reason, Throwable cause) {
            boolean first = !cancelled;
            cancelled = true;
            if (pause != null) {
                pause.cancel(false);
                return first;
            }
            if (attempt != null) {
                attempt.cancel(reason, cause);
            }
            return false;
        }

        private synchronized boolean repeats(Status status, Metadata trailers) {
            if (status.getCode() != Status.Code.RESOURCE_EXHAUSTED
                    || cancelled
                    || attempts == MAX_ATTEMPTS) {
                return false;
            }
            FencepostException e = FencepostException.of(status.asRuntimeException(trailers));
            Deadline deadline = options.getDeadline();
            long delay = Options.nanos(e.retryAfter());
            if (!e.hasRetryDelay()
                    || deadline != null && deadline.timeRemaining(TimeUnit.NANOSECONDS) < delay) {
                return false;
            }
            try {
                pause =
                        timer.schedule(
                                () -> context.run(this::again),
                                context.isCancelled() ? 0 : delay,
                                TimeUnit.NANOSECONDS);
            } catch (RejectedExecutionException closing) {
                return false;
            }
            return true;
        }

        /** Forwards nothing to the caller before it is certain that no other attempt follows. */
        private final class AttemptListener extends Listener<A> {
            private Metadata headers;

            @Override
            public void onHeaders(Metadata headers) {
                this.headers = headers;
            }

            @Override
            public void onMessage(A answer) {
                forwardHeaders();
                listener.onMessage(answer);
            }

            @Override
            public void onClose(Status status, Metadata trailers) {
                if (!repeats(status, trailers)) {
                    forget();
                    forwardHeaders();
                    listener.onClose(last.explain(endIn(context, status), trailers), trailers);
                }
            }

            @Override
            public void onReady() {
                listener.onReady();
            }

            private void forwardHeaders() {
                if (headers != null) {
                    listener.onHeaders(headers);
                    headers = null;
                }
            }
        }
    }
}
