package dev.fencepost.client;

import dev.fencepost.v1.CreateTxRequest;
import dev.fencepost.v1.GetTxRequest;
import dev.fencepost.v1.SubmitterServiceGrpc;
import dev.fencepost.v1.SubmitterServiceGrpc.SubmitterServiceBlockingStub;
import dev.fencepost.v1.Tx;
import dev.fencepost.v1.TxServiceGrpc;
import dev.fencepost.v1.TxServiceGrpc.TxServiceBlockingStub;
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
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.TimeUnit;

/** A connection to Fencepost. It is safe for use by many threads; one for a whole program is enough. */
public final class FencepostClient implements AutoCloseable {
    private final ManagedChannel connection;
    private final Channel channel;
    private final ScheduledExecutorService timer = Executors.newSingleThreadScheduledExecutor(task -> {
        Thread thread = new Thread(task, "fencepost-client");
        thread.setDaemon(true);
        return thread;
    });
    private final Duration heartbeat;
    private final Duration patience;

    private FencepostClient(String target, Options options) {
        connection = dial(target, options);
        Metadata headers = new Metadata();
        if (options.token != null) {
            headers.put(Metadata.Key.of("authorization", Metadata.ASCII_STRING_MARSHALLER), "Bearer " + options.token);
        }
        channel = ClientInterceptors.intercept(connection, new Patience(options.timeout, timer), MetadataUtils.newAttachHeadersInterceptor(headers));
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
        return new Watch(TxServiceGrpc.newStub(channel), connection, request, heartbeat, patience);
    }

    /** Asks for the events of one transaction, to its final one. */
    public static WatchTxRequest watchTx(String txId) {
        return WatchTxRequest.newBuilder().setTxId(txId).setUntilFinal(true).build();
    }

    /** Tells whether a state is an end: CONFIRMED, FAILED_FINAL or CANCELLED. */
    public static boolean isFinal(TxState state) {
        return state == TxState.TX_STATE_CONFIRMED || state == TxState.TX_STATE_FAILED_FINAL || state == TxState.TX_STATE_CANCELLED;
    }

    /**
     * Creates a transaction and returns it once it is final, whether it succeeded or not: its state and executed tell. A request whose request_id was used before
     * waits for that transaction. When the limit has passed (DEADLINE_EXCEEDED), or the thread is interrupted (CANCELLED), the transaction goes on, and the same
     * call waits for it again.
     *
     * @throws FencepostException when the node refuses the request, or cannot be reached
     */
    public Tx createAndWait(CreateTxRequest request, Duration limit) {
        long end = System.nanoTime() + limit.toNanos();
        Tx tx = FencepostException.typed(() -> txs().createTx(request)).getTx();
        // More than once only if a reorg takes a transaction out of a final state between the end of the watch and the look.
        while (!isFinal(tx.getState())) {
            awaitEnd(tx.getTxId(), end - System.nanoTime());
            GetTxRequest get = GetTxRequest.newBuilder().setTxId(tx.getTxId()).build();
            tx = FencepostException.typed(() -> txs().getTx(get)).getTx();
        }
        return tx;
    }

    private void awaitEnd(String txId, long nanos) {
        try (Watch watch = watch(watchTx(txId))) {
            ScheduledFuture<?> limit = timer.schedule(watch::close, nanos, TimeUnit.NANOSECONDS);
            watch.forEachRemaining(message -> {});
            if (!limit.cancel(false)) {
                throw FencepostException.of(Status.DEADLINE_EXCEEDED.withDescription("transaction " + txId + " is not final yet; it goes on, call again to wait for it"));
            }
        }
    }

    /** Ends the connection, and with it every call under way. */
    @Override
    public void close() {
        connection.shutdownNow();
        timer.shutdownNow();
    }
}
