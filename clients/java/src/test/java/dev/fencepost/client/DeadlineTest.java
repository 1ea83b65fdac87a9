package dev.fencepost.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.Any;
import com.google.rpc.RetryInfo;

import dev.fencepost.v1.CreateTxRequest;
import dev.fencepost.v1.CreateTxResponse;
import dev.fencepost.v1.GetTxRequest;
import dev.fencepost.v1.GetTxResponse;
import dev.fencepost.v1.Tx;
import dev.fencepost.v1.TxServiceGrpc;
import dev.fencepost.v1.TxState;
import dev.fencepost.v1.WatchTxRequest;
import dev.fencepost.v1.WatchTxResponse;

import io.grpc.Channel;
import io.grpc.ClientInterceptors;
import io.grpc.Context;
import io.grpc.Grpc;
import io.grpc.InsecureChannelCredentials;
import io.grpc.InsecureServerCredentials;
import io.grpc.ManagedChannel;
import io.grpc.Server;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.protobuf.StatusProto;
import io.grpc.stub.StreamObserver;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;

import java.time.Duration;
import java.util.List;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.TimeUnit;

/** A deadline error includes the failure of the attempts, as text only. */
class DeadlineTest {
    private static final GetTxRequest GET = GetTxRequest.newBuilder().setTxId("id").build();

    @Test
    void deadline_includesLastFailure() {
        try (FencepostClient nobody = FencepostClient.connect("127.0.0.1:1")) {
            assertLate(
                    "Connection refused",
                    () ->
                            FencepostException.typed(
                                    () ->
                                            nobody.txs()
                                                    .withDeadlineAfter(400, TimeUnit.MILLISECONDS)
                                                    .getTx(GET)));
            assertLate(
                    "Connection refused",
                    () ->
                            nobody.createAndWait(
                                    CreateTxRequest.getDefaultInstance(), Duration.ofMillis(400)));
        }
    }

    @Test
    void createAndWait_lostStream_reported() throws Exception {
        Server node = start();
        try (FencepostClient client = FencepostClient.connect("127.0.0.1:" + node.getPort())) {
            client.txs()
                    .createTx(
                            CreateTxRequest
                                    .getDefaultInstance()); // the first call of a process is slow
            assertLate(
                    "tx is not final yet; call again to continue waiting; the watch had lost"
                            + " its stream: UNAVAILABLE: gone away",
                    () ->
                            client.createAndWait(
                                    CreateTxRequest.getDefaultInstance(), Duration.ofSeconds(2)));
        } finally {
            node.shutdownNow();
        }
    }

    // A pending retry ends with the context of its caller.
    @Test
    void pause_contextCancelled_ends() throws Exception {
        Server node = start();
        ManagedChannel connection =
                Grpc.newChannelBuilder(
                                "127.0.0.1:" + node.getPort(), InsecureChannelCredentials.create())
                        .build();
        ScheduledThreadPoolExecutor timer = new ScheduledThreadPoolExecutor(1);
        try (FencepostClient client = FencepostClient.connect("127.0.0.1:" + node.getPort())) {
            Channel patient =
                    ClientInterceptors.intercept(
                            connection, new CallPolicy(Duration.ofMinutes(5), timer));
            Context.CancellableContext context = Context.current().withCancellation();
            Watch watch = client.watch(FencepostClient.watchTx("busy"));
            List<Future<?>> ended =
                    List.of(
                            ResumableTest.inContext(
                                    context,
                                    () -> TxServiceGrpc.newBlockingStub(patient).getTx(GET)),
                            ResumableTest.inContext(context, watch::hasNext));
            while (timer.getQueue().isEmpty() || watch.broken().isEmpty()) {
                Thread.onSpinWait();
            }
            context.cancel(null);
            for (Future<?> end : ended) {
                FencepostException e =
                        FencepostException.of(
                                assertThrows(
                                                ExecutionException.class,
                                                () -> end.get(30, TimeUnit.SECONDS))
                                        .getCause());
                assertEquals(Status.Code.CANCELLED, e.code(), e.getMessage());
                assertFalse(e.resumable(), e.getMessage());
            }
        } finally {
            connection.shutdownNow();
            timer.shutdownNow();
            node.shutdownNow();
        }
    }

    private static void assertLate(String says, Executable call) {
        FencepostException e = assertThrows(FencepostException.class, call);
        assertEquals(Status.Code.DEADLINE_EXCEEDED, e.code(), e.getMessage());
        assertFalse(e.resumable(), e.getMessage());
        assertTrue(e.getMessage().contains(says), e.getMessage());
    }

    /** A node that accepts creates, fails watches, and has no room for reads and "busy" watches. */
    private static Server start() throws Exception {
        return Grpc.newServerBuilderForPort(0, InsecureServerCredentials.create())
                .addService(
                        new TxServiceGrpc.TxServiceImplBase() {
                            @Override
                            public void createTx(
                                    CreateTxRequest request,
                                    StreamObserver<CreateTxResponse> answer) {
                                answer.onNext(
                                        CreateTxResponse.newBuilder()
                                                .setTx(
                                                        Tx.newBuilder()
                                                                .setTxId("tx")
                                                                .setState(TxState.TX_STATE_QUEUED))
                                                .build());
                                answer.onCompleted();
                            }

                            @Override
                            public void watchTx(
                                    WatchTxRequest request,
                                    StreamObserver<WatchTxResponse> answer) {
                                answer.onError(
                                        request.getTxId().equals("busy")
                                                ? noRoom()
                                                : Status.UNAVAILABLE
                                                        .withDescription("gone away")
                                                        .asRuntimeException());
                            }

                            @Override
                            public void getTx(
                                    GetTxRequest request, StreamObserver<GetTxResponse> answer) {
                                answer.onError(noRoom());
                            }
                        })
                .build()
                .start();
    }

    private static StatusRuntimeException noRoom() {
        RetryInfo later =
                RetryInfo.newBuilder()
                        .setRetryDelay(com.google.protobuf.Duration.newBuilder().setSeconds(60))
                        .build();
        return StatusProto.toStatusRuntimeException(
                com.google.rpc.Status.newBuilder()
                        .setCode(Status.Code.RESOURCE_EXHAUSTED.value())
                        .addDetails(Any.pack(later))
                        .build());
    }
}
