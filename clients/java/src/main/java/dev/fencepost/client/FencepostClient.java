package dev.fencepost.client;

import dev.fencepost.v1.CreateTxRequest;
import dev.fencepost.v1.GetTxRequest;
import dev.fencepost.v1.NonceServiceGrpc;
import dev.fencepost.v1.NonceServiceGrpc.NonceServiceBlockingStub;
import dev.fencepost.v1.PoolServiceGrpc;
import dev.fencepost.v1.PoolServiceGrpc.PoolServiceBlockingStub;
import dev.fencepost.v1.SinkServiceGrpc;
import dev.fencepost.v1.SinkServiceGrpc.SinkServiceBlockingStub;
import dev.fencepost.v1.StatusServiceGrpc;
import dev.fencepost.v1.StatusServiceGrpc.StatusServiceBlockingStub;
import dev.fencepost.v1.SubmitterServiceGrpc;
import dev.fencepost.v1.SubmitterServiceGrpc.SubmitterServiceBlockingStub;
import dev.fencepost.v1.Tx;
import dev.fencepost.v1.TxIds;
import dev.fencepost.v1.TxServiceGrpc;
import dev.fencepost.v1.TxServiceGrpc.TxServiceBlockingStub;
import dev.fencepost.v1.TxServiceGrpc.TxServiceStub;
import dev.fencepost.v1.TxState;
import dev.fencepost.v1.WatchTxRequest;

import io.grpc.Channel;
import io.grpc.ClientInterceptors;
import io.grpc.Grpc;
import io.grpc.InsecureChannelCredentials;
import io.grpc.ManagedChannel;
import io.grpc.ManagedChannelBuilder;
import io.grpc.Metadata;
import io.grpc.Status;
import io.grpc.stub.MetadataUtils;

import java.time.Duration;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;

/** A connection to Fencepost. It is thread-safe; a program needs only one. */
public final class FencepostClient implements AutoCloseable {
    /** Limits a response, in bytes. Pages with large payloads exceed gRPC's default of 4 MiB. */
    private static final int MAX_ANSWER = 64 << 20;

    private final ManagedChannel connection;
    private final Channel channel;
    private final ScheduledThreadPoolExecutor timer =
            new ScheduledThreadPoolExecutor(
                    1,
                    task -> {
                        Thread thread = new Thread(task, "fencepost-client");
                        thread.setDaemon(true);
                        return thread;
                    });
    private final CallPolicy calls;
    private final Set<Watch> watches = ConcurrentHashMap.newKeySet();
    private volatile boolean closed;
    private final Duration timeout;
    private final Duration heartbeat;
    private final Duration patience;

    private FencepostClient(String target, Options options) {
        connection = dial(target, options);
        timer.setRemoveOnCancelPolicy(true);
        Metadata headers = new Metadata();
        if (options.token != null) {
            headers.put(
                    Metadata.Key.of("authorization", Metadata.ASCII_STRING_MARSHALLER),
                    "Bearer " + options.token);
        }
        calls = new CallPolicy(options.timeout, timer);
        channel =
                ClientInterceptors.intercept(
                        connection, calls, MetadataUtils.newAttachHeadersInterceptor(headers));
        timeout = options.timeout;
        heartbeat = options.heartbeat;
        patience = options.patience;
    }

    /** Returns a client with a plain-text connection and the default options. */
    public static FencepostClient connect(String target) {
        return connect(target, new Options());
    }

    /**
     * Returns a client for a target: "host:port" of a node or load balancer, or "dns:///host:port"
     * for a name with one address per node. It does not dial before the first call.
     *
     * @throws IllegalArgumentException if the options are invalid
     */
    public static FencepostClient connect(String target, Options options) {
        if (options.token != null && options.tls == null) {
            throw new IllegalArgumentException(
                    "a token must not be sent over plain text; set Options.tls");
        }
        return new FencepostClient(target, options);
    }

    private static ManagedChannel dial(String target, Options options) {
        Tls tls = options.tls;
        ManagedChannelBuilder<?> builder =
                Grpc.newChannelBuilder(
                        target,
                        tls == null ? InsecureChannelCredentials.create() : tls.credentials());
        if (tls != null && tls.serverName() != null) {
            builder.overrideAuthority(tls.serverName());
        }
        return builder.maxInboundMessageSize(MAX_ANSWER)
                .defaultServiceConfig(CallPolicy.SERVICE_CONFIG)
                // Pings detect a node that vanished silently.
                .keepAliveTime(20, TimeUnit.SECONDS)
                .keepAliveTimeout(10, TimeUnit.SECONDS)
                .build();
    }

    /** Creates, reads and cancels transactions. */
    public TxServiceBlockingStub txs() {
        return TxServiceGrpc.newBlockingStub(channel);
    }

    /** Manages the accounts that Fencepost sends from, for operators. */
    public SubmitterServiceBlockingStub submitters() {
        return SubmitterServiceGrpc.newBlockingStub(channel);
    }

    /** Manages the delivery of events to other systems, for operators. */
    public SinkServiceBlockingStub sinks() {
        return SinkServiceGrpc.newBlockingStub(channel);
    }

    /** Reserves nonces for programs that sign themselves; see {@link #withNonce}. */
    public NonceServiceBlockingStub nonces() {
        return NonceServiceGrpc.newBlockingStub(channel);
    }

    /** Manages pools of accounts, for operators. */
    public PoolServiceBlockingStub pools() {
        return PoolServiceGrpc.newBlockingStub(channel);
    }

    /** Reports the state of the nodes and their chains. */
    public StatusServiceBlockingStub status() {
        return StatusServiceGrpc.newBlockingStub(channel);
    }

    /**
     * The channel for other kinds of stubs (futures, observers), with the client's token, timeout
     * and retries.
     */
    public Channel channel() {
        return channel;
    }

    /** Starts a watch; see {@link Watch}. The first stream opens when the first message is read. */
    public Watch watch(WatchTxRequest request) {
        return new Watch(this, request, heartbeat, patience);
    }

    /** Returns a stub for one stream of a watch. */
    TxServiceStub streams() {
        return TxServiceGrpc.newStub(channel);
    }

    /** Reconnects immediately: a watch has its own delays. */
    void reconnect() {
        connection.resetConnectBackoff();
    }

    /** Ends a watch when the client is closed, or now if it already is. */
    void add(Watch watch) {
        watches.add(watch);
        if (closed) {
            watch.endWithClient();
        }
    }

    void remove(Watch watch) {
        watches.remove(watch);
    }

    /** Requests the events of one transaction until it is final. */
    public static WatchTxRequest watchTx(String txId) {
        return WatchTxRequest.newBuilder().setTxId(txId).setUntilFinal(true).build();
    }

    /**
     * Requests the events of several transactions, at most 100, until all are final. It first
     * delivers a snapshot of each, newest first.
     */
    public static WatchTxRequest watchTxs(String... txIds) {
        return WatchTxRequest.newBuilder()
                .setTxs(TxIds.newBuilder().addAllTxIds(List.of(txIds)))
                .setUntilFinal(true)
                .build();
    }

    /** Reports whether a state is final: CONFIRMED, FAILED_FINAL or CANCELLED. */
    public static boolean isFinal(TxState state) {
        return state == TxState.TX_STATE_CONFIRMED
                || state == TxState.TX_STATE_FAILED_FINAL
                || state == TxState.TX_STATE_CANCELLED;
    }

    /**
     * Creates a transaction and returns it once it is final, for any outcome: see its state and
     * executed. A request with a known request_id waits for that transaction. The wait ends early
     * after the limit (DEADLINE_EXCEEDED), or when the thread is interrupted, its io.grpc.Context
     * is cancelled or the client is closed (CANCELLED). A created transaction then continues, and
     * the same call waits for it again.
     *
     * @throws FencepostException if the node rejects the request or cannot be reached
     */
    public Tx createAndWait(CreateTxRequest request, Duration limit) {
        long end = System.nanoTime() + Options.nanos(limit);
        Tx tx = FencepostException.typed(() -> txsUntil(end).createTx(request)).getTx();
        // It repeats only if a reorg makes the transaction non-final between the watch and the
        // read.
        while (!isFinal(tx.getState())) {
            awaitEnd(tx.getTxId(), end - System.nanoTime());
            GetTxRequest get = GetTxRequest.newBuilder().setTxId(tx.getTxId()).build();
            tx = FencepostException.typed(() -> txsUntil(end).getTx(get)).getTx();
        }
        return tx;
    }

    private TxServiceBlockingStub txsUntil(long end) {
        return txs().withDeadlineAfter(
                        Math.min(end - System.nanoTime(), Options.nanos(timeout)),
                        TimeUnit.NANOSECONDS);
    }

    private void awaitEnd(String txId, long nanos) {
        try (Watch watch = watch(watchTx(txId))) {
            AtomicBoolean late = new AtomicBoolean();
            ScheduledFuture<?> limit =
                    timer.schedule(
                            () -> {
                                late.set(true);
                                watch.close();
                            },
                            nanos,
                            TimeUnit.NANOSECONDS);
            try {
                watch.forEachRemaining(message -> {});
            } finally {
                limit.cancel(false);
            }
            if (late.get()) {
                String lost =
                        watch.broken()
                                .map(
                                        e ->
                                                "; the watch had lost its stream: "
                                                        + LastFailure.text(e.status()))
                                .orElse("");
                throw FencepostException.of(
                        Status.DEADLINE_EXCEEDED.withDescription(
                                "transaction "
                                        + txId
                                        + " is not final yet; call again to continue waiting"
                                        + lost));
            }
        } catch (RejectedExecutionException closed) {
            throw FencepostException.of(CallPolicy.CLOSED);
        }
    }

    /** Calls {@link #withNonce(String, NonceHandler, NonceOptions)} with the default options. */
    public NonceHandle withNonce(String submitter, NonceHandler handler) throws Exception {
        return withNonce(submitter, handler, new NonceOptions());
    }

    /**
     * Reserves a nonce of a submitter in mode EXTERNAL, runs the handler with it, and reports the
     * result: signed bytes are submitted, a hash is recorded. It extends the reservation while the
     * handler runs.
     *
     * <p>After an exception of the handler, or of the report, the nonce is quarantined: a signed
     * transaction may exist, so it is not used again before the chain shows that, or an operator
     * decides. Only a {@link NeverSignedException} releases it. If this process dies, the
     * reservation expires, with the same effect.
     *
     * @throws FencepostException if the node rejects a call or cannot be reached
     * @throws Exception the exception of the handler
     */
    public NonceHandle withNonce(String submitter, NonceHandler handler, NonceOptions options)
            throws Exception {
        return Reservation.with(this, timer, submitter, handler, options);
    }

    /**
     * Ends the connection, all calls and watches, and pending retries. They fail with CANCELLED, as
     * do later calls.
     */
    @Override
    public void close() {
        closed = true;
        calls.close();
        watches.forEach(Watch::endWithClient);
        connection.shutdownNow();
        timer.shutdownNow();
    }
}
