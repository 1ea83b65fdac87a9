package dev.fencepost.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.common.util.concurrent.ListenableFuture;
import com.google.protobuf.Any;
import com.google.protobuf.Duration;
import com.google.rpc.ErrorInfo;
import com.google.rpc.RetryInfo;

import dev.fencepost.v1.GetTxRequest;
import dev.fencepost.v1.TxServiceGrpc;
import dev.fencepost.v1.WatchTxRequest;

import io.grpc.CallOptions;
import io.grpc.ClientCall;
import io.grpc.Context;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.Status;
import io.grpc.protobuf.StatusProto;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;

import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;

/** One table for all languages lists the errors after which a watch resumes. */
class ResumableTest {
    @Test
    void resumable_table() throws IOException {
        List<String> lines = Files.readAllLines(Path.of("../resumable.csv"));
        assertEquals(17, lines.size());
        for (String line : lines.subList(1, lines.size())) {
            String[] parts = line.split(",");
            for (String reason : List.of("", "NODE_BUSY")) {
                for (long seconds : List.of(0L, 1L)) {
                    boolean want =
                            switch (parts[1]) {
                                case "always" -> true;
                                case "never" -> false;
                                case "without a reason" -> reason.isEmpty();
                                case "with a delay" -> seconds > 0;
                                default -> throw new IllegalArgumentException(line);
                            };
                    FencepostException e = thrown(Status.Code.valueOf(parts[0]), reason, seconds);
                    assertEquals(
                            want,
                            e.resumable(),
                            line + ": reason \"" + reason + "\", " + seconds + " s");
                }
            }
        }
    }

    // Retrying such an error would never end.
    @Test
    void resumable_clientErrors_never() {
        GetTxRequest get = GetTxRequest.newBuilder().setTxId("id").build();
        FencepostClient closed = FencepostClient.connect("127.0.0.1:1");
        closed.close();
        for (Executable call :
                List.<Executable>of(
                        () -> FencepostException.typed(() -> closed.txs().getTx(get)),
                        () ->
                                FencepostException.typed(
                                        () ->
                                                closed.txs()
                                                        .watchTx(FencepostClient.watchTx("id"))
                                                        .hasNext()),
                        () -> closed.watch(FencepostClient.watchTx("id")).hasNext())) {
            assertOwn(assertThrows(FencepostException.class, call));
        }
    }

    @Test
    void resumable_closedClient_never() throws Exception {
        GetTxRequest get = GetTxRequest.newBuilder().setTxId("id").build();
        // Accepts connections and sends nothing.
        try (ServerSocket silent = new ServerSocket(0, 50, InetAddress.getLoopbackAddress())) {
            FencepostClient client = FencepostClient.connect("127.0.0.1:" + silent.getLocalPort());
            ListenableFuture<?> unary = TxServiceGrpc.newFutureStub(client.channel()).getTx(get);
            Watch watch = client.watch(FencepostClient.watchTx("id"));
            CompletableFuture<Boolean> more = CompletableFuture.supplyAsync(watch::hasNext);
            for (Throwable cause : new Throwable[] {null, new IllegalStateException("enough")}) {
                CompletableFuture<Status> call =
                        cancelled(client, TxServiceGrpc.getGetTxMethod(), cause);
                CompletableFuture<Status> stream =
                        cancelled(client, TxServiceGrpc.getWatchTxMethod(), cause);
                for (CompletableFuture<Status> end : List.of(call, stream)) {
                    assertOwn(FencepostException.of(end.get(5, TimeUnit.SECONDS)));
                }
            }
            client.close();
            for (Future<?> future : List.of(unary, more)) {
                assertOwn(
                        FencepostException.of(
                                assertThrows(
                                                ExecutionException.class,
                                                () -> future.get(5, TimeUnit.SECONDS))
                                        .getCause()));
            }
        }
        try (FencepostClient client = FencepostClient.connect("127.0.0.1:1")) {
            Thread.currentThread().interrupt();
            assertOwn(
                    assertThrows(
                            FencepostException.class,
                            () -> FencepostException.typed(() -> client.txs().getTx(get))));
            assertTrue(Thread.interrupted());
        }
    }

    // A context belongs to the caller: an error that it causes would recur.
    @Test
    void resumable_cancelledContext_never() throws Exception {
        GetTxRequest get = GetTxRequest.newBuilder().setTxId("id").build();
        // Accepts connections and sends nothing.
        try (ServerSocket silent = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
                FencepostClient client =
                        FencepostClient.connect("127.0.0.1:" + silent.getLocalPort());
                FencepostClient nobody = FencepostClient.connect("127.0.0.1:1")) {
            for (Throwable cause : new Throwable[] {null, new IllegalStateException("enough")}) {
                Context.CancellableContext context = Context.current().withCancellation();
                Watch between = nobody.watch(FencepostClient.watchTx("id"));
                List<Future<?>> ended =
                        List.of(
                                inContext(context, () -> client.txs().getTx(get)),
                                inContext(
                                        context,
                                        () ->
                                                client.txs()
                                                        .watchTx(FencepostClient.watchTx("id"))
                                                        .hasNext()),
                                inContext(
                                        context,
                                        () ->
                                                client.watch(FencepostClient.watchTx("id"))
                                                        .hasNext()),
                                inContext(context, between::hasNext));
                while (between.broken().isEmpty()) {
                    Thread.onSpinWait();
                }
                context.cancel(cause);
                for (Future<?> end : ended) {
                    FencepostException e =
                            FencepostException.of(
                                    assertThrows(
                                                    ExecutionException.class,
                                                    () -> end.get(5, TimeUnit.SECONDS))
                                            .getCause());
                    assertOwn(e);
                    assertEquals(
                            end == ended.get(3) ? 1 : 0,
                            e.getSuppressed().length,
                            "a watch that had lost its stream, and nothing else, tells why");
                }
            }
        }
    }

    static Future<?> inContext(Context context, Callable<?> call) {
        FutureTask<?> task = new FutureTask<>(() -> context.call(call));
        Thread thread = new Thread(task, "in a context");
        thread.setDaemon(true);
        thread.start();
        return task;
    }

    /** Returns the error of a call cancelled by its caller. */
    private static <Q, A> CompletableFuture<Status> cancelled(
            FencepostClient client, MethodDescriptor<Q, A> method, Throwable cause) {
        CompletableFuture<Status> end = new CompletableFuture<>();
        ClientCall<Q, A> call = client.channel().newCall(method, CallOptions.DEFAULT);
        call.start(
                new ClientCall.Listener<>() {
                    @Override
                    public void onClose(Status status, Metadata trailers) {
                        end.complete(status);
                    }
                },
                new Metadata());
        call.cancel("enough", cause);
        return end;
    }

    private static void assertOwn(FencepostException e) {
        assertEquals(Status.Code.CANCELLED, e.code(), e.getMessage());
        assertFalse(e.resumable(), e.getMessage());
    }

    @Test
    void watchTxs_request() {
        WatchTxRequest request = FencepostClient.watchTxs("a", "b");
        assertEquals(List.of("a", "b"), request.getTxs().getTxIdsList());
        assertTrue(request.getUntilFinal());
    }

    private static FencepostException thrown(Status.Code code, String reason, long seconds) {
        com.google.rpc.Status.Builder status =
                com.google.rpc.Status.newBuilder().setCode(code.value()).setMessage("so it is");
        if (!reason.isEmpty()) {
            status.addDetails(
                    Any.pack(
                            ErrorInfo.newBuilder()
                                    .setReason(reason)
                                    .setDomain("fencepost.dev")
                                    .build()));
        }
        if (seconds > 0) {
            status.addDetails(
                    Any.pack(
                            RetryInfo.newBuilder()
                                    .setRetryDelay(Duration.newBuilder().setSeconds(seconds))
                                    .build()));
        }
        return FencepostException.of(StatusProto.toStatusRuntimeException(status.build()));
    }
}
