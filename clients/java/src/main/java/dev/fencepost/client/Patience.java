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
 * Bounds calls in time, and repeats one that fails with RESOURCE_EXHAUSTED when a node says when to. The service config repeats what is UNAVAILABLE; it cannot see
 * the details of an error. Streams are not repeated: a watch resumes. Calls of both kinds end with the client.
 */
final class Patience implements ClientInterceptor {
    /** How often a call is made in all. */
    private static final int MAX_ATTEMPTS = 5;

    /** How a call or a watch ends whose client is closed. */
    static final Status CLOSED = Status.CANCELLED.withDescription("the client is closed; connect another one").withCause(Own.MARK);

    /** The mark of an end that the client, or its caller, made: the same code comes from the network. It has no stack, and as its cause what the caller gave. */
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
    /** Calls under way. */
    private final Set<ClientCall<?, ?>> calls = ConcurrentHashMap.newKeySet();
    private volatile boolean closed;

    Patience(Duration timeout, ScheduledExecutorService timer) {
        this.timeout = timeout;
        this.timer = timer;
    }

    @Override
    public <Q, A> ClientCall<Q, A> interceptCall(MethodDescriptor<Q, A> method, CallOptions options, Channel next) {
        if (closed) {
            return new RefusedCall<>(options);
        }
        if (method.getType() != MethodDescriptor.MethodType.UNARY) {
            return new OpenCall<>(next.newCall(method, options));
        }
        CallOptions bounded = options.getDeadline() == null ? options.withDeadlineAfter(Options.nanos(timeout), TimeUnit.NANOSECONDS) : options;
        return new PatientCall<>(method, bounded, next);
    }

    /** Ends the calls under way, and refuses those that come later. */
    void close() {
        closed = true;
        calls.forEach(call -> call.cancel(CLOSED.getDescription(), null));
    }

    /** Tells a caller the end of a call where it listens: a thread that waits in a blocking stub is woken by nothing else. */
    private static void tellEnd(CallOptions options, ClientCall.Listener<?> listener, Status status) {
        Executor executor = options.getExecutor() == null ? ForkJoinPool.commonPool() : options.getExecutor();
        executor.execute(() -> listener.onClose(status, new Metadata()));
    }

    /** The end of a call whose context was cancelled was made by its caller, in whose context it is. */
    private static Status endIn(Context context, Status status) {
        return status.getCode() == Status.Code.CANCELLED && context.isCancelled() ? status.withCause(Own.by(status.getCause())) : status;
    }

    /** A call of a client that is closed. */
    private static final class RefusedCall<Q, A> extends ClientCall<Q, A> {
        private final CallOptions options;

        RefusedCall(CallOptions options) {
            this.options = options;
        }

        @Override
        public void start(Listener<A> listener, Metadata headers) {
            tellEnd(options, listener, CLOSED);
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
            super.start(new SimpleForwardingClientCallListener<>(listener) {
                @Override
                public void onClose(Status status, Metadata trailers) {
                    over = true;
                    calls.remove(OpenCall.this);
                    super.onClose(endIn(context, status), trailers);
                }
            }, headers);
            // Only now can it bear to be cancelled.
            calls.add(this);
            if (over) {
                calls.remove(this);
            } else if (closed) {
                cancel(CLOSED.getDescription(), null);
            }
        }
    }

    /** A call over all of its attempts. What the caller said is kept, to be said again. */
    private final class PatientCall<Q, A> extends ClientCall<Q, A> {
        private final MethodDescriptor<Q, A> method;
        private final CallOptions options;
        private final Channel next;
        private final Context context = Context.current();
        private final Context.CancellationListener ending = ended -> hasten();
        private final LastFailure last = new LastFailure();

        private ClientCall<Q, A> attempt;
        private int attempts;
        private Listener<A> listener;
        private Metadata headers;
        private int requested;
        private Q message;
        private boolean cancelled;
        /** The wait for the next attempt; null while there is one. */
        private ScheduledFuture<?> pause;

        PatientCall(MethodDescriptor<Q, A> method, CallOptions options, Channel next) {
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
            attempt.start(new Hearing(), copy);
        }

        /** Ends the wait of a call whose context was cancelled: the next attempt ends at once, and gRPC tells how. */
        private synchronized void hasten() {
            if (pause != null && pause.cancel(false)) {
                context.run(this::again);
            }
        }

        private synchronized void again() {
            if (cancelled) {
                return; // and the caller knows
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
                tellEnd(options, listener, Status.CANCELLED.withDescription(reason).withCause(Own.by(cause)));
            }
        }

        private void forget() {
            calls.remove(this);
            context.removeListener(ending);
        }

        /** Cancels the attempt, which tells its end; tells whether there is none, but a wait for one. */
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
            if (status.getCode() != Status.Code.RESOURCE_EXHAUSTED || cancelled || attempts == MAX_ATTEMPTS) {
                return false;
            }
            FencepostException e = FencepostException.of(status.asRuntimeException(trailers));
            Deadline deadline = options.getDeadline();
            long delay = Options.nanos(e.retryAfter());
            if (!e.asksForPatience() || deadline != null && deadline.timeRemaining(TimeUnit.NANOSECONDS) < delay) {
                return false;
            }
            try {
                pause = timer.schedule(() -> context.run(this::again), context.isCancelled() ? 0 : delay, TimeUnit.NANOSECONDS);
            } catch (RejectedExecutionException closing) {
                return false;
            }
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
                    forget();
                    tellHeaders();
                    listener.onClose(last.explain(endIn(context, status), trailers), trailers);
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
