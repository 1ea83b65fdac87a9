package dev.fencepost.client;

import dev.fencepost.v1.CreateTxRequest;
import dev.fencepost.v1.GetTxRequest;
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

/** A connection to Fencepost. It is safe for use by many threads; one for a whole program is enough. */
public final class FencepostClient implements AutoCloseable {
    /** The largest answer that is read: a page of transactions with large payloads goes far beyond the 4 MiB of gRPC. */
    private static final int MAX_ANSWER = 64 << 20;

    private final ManagedChannel connection;
    private final Channel channel;
    private final ScheduledThreadPoolExecutor timer = new ScheduledThreadPoolExecutor(1, task -> {
        Thread thread = new Thread(task, "fencepost-client");
        thread.setDaemon(true);
        return thread;
    });
    private final Patience calls;
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
            headers.put(Metadata.Key.of("authorization", Metadata.ASCII_STRING_MARSHALLER), "Bearer " + options.token);
        }
        calls = new Patience(options.timeout, timer);
        channel = ClientInterceptors.intercept(connection, calls, MetadataUtils.newAttachHeadersInterceptor(headers));
        timeout = options.timeout;
        heartbeat = options.heartbeat;
        patience = options.patience;
    }

    /** Makes a client that connects in plain text, with the default options. */
    public static FencepostClient connect(String target) {
        return connect(target, new Options());
    }

    /**
     * Makes a client for a target: "host:port" of a node or a load balancer, or "dns:///host:port" for a name with an address for each node. Nothing is dialled
     * before the first call.
     *
     * @throws IllegalArgumentException when the options are wrong
     */
    public static FencepostClient connect(String target, Options options) {
        if (options.token != null && options.tls == null) {
            throw new IllegalArgumentException("a token over plain text is there for all to read; give TLS options as well");
        }
        return new FencepostClient(target, options);
    }

    private static ManagedChannel dial(String target, Options options) {
        Tls tls = options.tls;
        ManagedChannelBuilder<?> builder = Grpc.newChannelBuilder(target, tls == null ? InsecureChannelCredentials.create() : tls.credentials());
        if (tls != null && tls.serverName() != null) {
            builder.overrideAuthority(tls.serverName());
        }
        return builder
                .maxInboundMessageSize(MAX_ANSWER)
                .defaultServiceConfig(Patience.SERVICE_CONFIG)
                // A node that vanished while nothing was said is found out by pings.
                .keepAliveTime(20, TimeUnit.SECONDS)
                .keepAliveTimeout(10, TimeUnit.SECONDS)
                .build();
    }

    /** Creates, reads and cancels transactions. */
    public TxServiceBlockingStub txs() {
        return TxServiceGrpc.newBlockingStub(channel);
    }

    /** For operators: the accounts that Fencepost sends from. */
    public SubmitterServiceBlockingStub submitters() {
        return SubmitterServiceGrpc.newBlockingStub(channel);
    }

    /** For stubs of other kinds (futures, observers): they get the client's token, timeout and repetitions too. */
    public Channel channel() {
        return channel;
    }

    /**
     * Watches what the request asks for; see {@link Watch}. The first stream is opened when the first message is asked for.
     */
    public Watch watch(WatchTxRequest request) {
        return new Watch(this, request, heartbeat, patience);
    }

    /** A stub for one stream of a watch. */
    TxServiceStub streams() {
        return TxServiceGrpc.newStub(channel);
    }

    /** Tries to connect anew at once: a watch has a pace of its own. */
    void reconnect() {
        connection.resetConnectBackoff();
    }

    /** Ends a watch when the client is closed, at once if it is. */
    void enlist(Watch watch) {
        watches.add(watch);
        if (closed) {
            watch.endWithClient();
        }
    }

    void dismiss(Watch watch) {
        watches.remove(watch);
    }

    /** Asks for the events of one transaction, to its final one. */
    public static WatchTxRequest watchTx(String txId) {
        return WatchTxRequest.newBuilder().setTxId(txId).setUntilFinal(true).build();
    }

    /** Asks for the events of several transactions, 100 at most, until all are final. Each is first shown as it is (snapshots), the newest first. */
    public static WatchTxRequest watchTxs(String... txIds) {
        return WatchTxRequest.newBuilder().setTxs(TxIds.newBuilder().addAllTxIds(List.of(txIds))).setUntilFinal(true).build();
    }

    /** Tells whether a state is an end: CONFIRMED, FAILED_FINAL or CANCELLED. */
    public static boolean isFinal(TxState state) {
        return state == TxState.TX_STATE_CONFIRMED || state == TxState.TX_STATE_FAILED_FINAL || state == TxState.TX_STATE_CANCELLED;
    }

    /**
     * Creates a transaction and returns it once it is final, whether it succeeded or not: its state and executed tell. A request whose request_id was used before
     * waits for that transaction. When the limit has passed (DEADLINE_EXCEEDED), or the thread is interrupted, its io.grpc.Context cancelled or the client closed (CANCELLED), a
     * transaction that was created goes on, and the same call waits for it again.
     *
     * @throws FencepostException when the node refuses the request, or cannot be reached
     */
    public Tx createAndWait(CreateTxRequest request, Duration limit) {
        long end = System.nanoTime() + Options.nanos(limit);
        Tx tx = FencepostException.typed(() -> txsUntil(end).createTx(request)).getTx();
        // More than once only if a reorg takes a transaction out of a final state between the end of the watch and the look.
        while (!isFinal(tx.getState())) {
            awaitEnd(tx.getTxId(), end - System.nanoTime());
            GetTxRequest get = GetTxRequest.newBuilder().setTxId(tx.getTxId()).build();
            tx = FencepostException.typed(() -> txsUntil(end).getTx(get)).getTx();
        }
        return tx;
    }

    private TxServiceBlockingStub txsUntil(long end) {
        return txs().withDeadlineAfter(Math.min(end - System.nanoTime(), Options.nanos(timeout)), TimeUnit.NANOSECONDS);
    }

    private void awaitEnd(String txId, long nanos) {
        try (Watch watch = watch(watchTx(txId))) {
            AtomicBoolean late = new AtomicBoolean();
            ScheduledFuture<?> limit = timer.schedule(() -> {
                late.set(true);
                watch.close();
            }, nanos, TimeUnit.NANOSECONDS);
            try {
                watch.forEachRemaining(message -> {});
            } finally {
                limit.cancel(false);
            }
            if (late.get()) {
                String lost = watch.broken().map(e -> "; the watch had lost its stream: " + LastFailure.text(e.status())).orElse("");
                throw FencepostException.of(Status.DEADLINE_EXCEEDED.withDescription("transaction " + txId + " is not final yet; it goes on, call again to wait for it" + lost));
            }
        } catch (RejectedExecutionException closed) {
            throw FencepostException.of(Patience.CLOSED);
        }
    }

    /**
     * Ends the connection, and with it every call and every watch under way, also those that wait to be made again: they fail with CANCELLED, and so does whatever
     * is asked of the client later.
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
