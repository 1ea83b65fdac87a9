package dev.fencepost.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.fencepost.v1.GetTxRequest;
import dev.fencepost.v1.TxServiceGrpc;

import io.grpc.Grpc;
import io.grpc.InsecureChannelCredentials;
import io.grpc.ManagedChannel;
import io.grpc.Status;

import org.junit.jupiter.api.Test;

/** Messages of errors that do not come from a node. */
class MessageTest {
    @Test
    void message_unreachableNode() {
        ManagedChannel nobody =
                Grpc.newChannelBuilder("127.0.0.1:1", InsecureChannelCredentials.create()).build();
        try {
            GetTxRequest get = GetTxRequest.newBuilder().setTxId("id").build();
            FencepostException e =
                    assertThrows(
                            FencepostException.class,
                            () ->
                                    FencepostException.typed(
                                            () ->
                                                    TxServiceGrpc.newBlockingStub(nobody)
                                                            .getTx(get)));
            assertEquals(Status.Code.UNAVAILABLE, e.code());
            assertTrue(
                    e.getMessage().contains("Connection refused")
                            && e.getMessage().contains("127.0.0.1:1"),
                    e.getMessage());
            assertEquals(1, e.getMessage().lines().count(), e.getMessage());
        } finally {
            nobody.shutdownNow();
        }
    }

    @Test
    void message_onlyCause() {
        assertEquals(
                "UNKNOWN: java.lang.IllegalStateException: odd",
                FencepostException.of(new IllegalStateException("odd")).getMessage());
        assertEquals("INTERNAL", FencepostException.of(Status.INTERNAL).getMessage());
        assertEquals(
                "UNAVAILABLE: gone",
                FencepostException.of(
                                Status.UNAVAILABLE
                                        .withDescription("gone")
                                        .withCause(new IllegalStateException("odd")))
                        .getMessage());
    }

    @Test
    void message_onlyCode() {
        assertEquals("UNAVAILABLE", LastFailure.text(Status.UNAVAILABLE));
        assertEquals(
                "UNAVAILABLE: gone", LastFailure.text(Status.UNAVAILABLE.withDescription("gone")));
        assertEquals(
                "UNAVAILABLE: io exception: refused",
                LastFailure.text(
                        Status.UNAVAILABLE
                                .withDescription("io exception")
                                .withCause(new IllegalStateException("refused"))));
        assertEquals(
                "UNKNOWN: java.lang.IllegalStateException",
                LastFailure.text(Status.UNKNOWN.withCause(new IllegalStateException())));
    }
}
