package dev.fencepost.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertThrows;

import dev.fencepost.v1.AllocateNonceRequest;
import dev.fencepost.v1.Executed;
import dev.fencepost.v1.GetNonceRequest;
import dev.fencepost.v1.Nonce;
import dev.fencepost.v1.NonceState;
import dev.fencepost.v1.RecordNonceHashRequest;
import dev.fencepost.v1.Tx;
import dev.fencepost.v1.TxState;

import org.junit.jupiter.api.Test;

import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HexFormat;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Predicate;

/** The steps are in order: the chain includes the nonces of one account in order. */
class NonceTest {
    private static final Duration LIMIT = Duration.ofMinutes(2);

    private FencepostClient client;
    /** Target, name, RPC, and a signed transaction and its hash for each nonce. */
    private String[] account;

    /** Broadcasts the transaction of a nonce. */
    private NonceResult send(long nonce) throws Exception {
        int at = 3 + 2 * (int) nonce;
        String body =
                "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"eth_sendRawTransaction\",\"params\":[\""
                        + account[at]
                        + "\"]}";
        HttpRequest request =
                HttpRequest.newBuilder(URI.create(account[2]))
                        .header("content-type", "application/json")
                        .POST(HttpRequest.BodyPublishers.ofString(body))
                        .build();
        String answer =
                HttpClient.newHttpClient()
                        .send(request, HttpResponse.BodyHandlers.ofString())
                        .body();
        assertFalse(answer.contains("error"), answer);
        return NonceResult.sentTx(account[at + 1]);
    }

    private Nonce until(String reservationId, Predicate<Nonce> holds) throws Exception {
        GetNonceRequest get =
                GetNonceRequest.newBuilder().setReservationId(reservationId).build();
        while (true) {
            Nonce nonce = client.nonces().getNonce(get).getNonce();
            if (holds.test(nonce)) {
                return nonce;
            }
            Thread.sleep(20);
        }
    }

    private void reportLate(Nonce nonce) throws Exception {
        client.nonces()
                .recordNonceHash(
                        RecordNonceHashRequest.newBuilder()
                                .setReservationId(nonce.getReservationId())
                                .setTxHash(send(nonce.getNonce()).txHash)
                                .build());
    }

    private static void assertAccepted(NonceHandle handle) throws Exception {
        NonceHandle.Outcome outcome = handle.await(LIMIT);
        assertEquals(NonceState.NONCE_STATE_ACCEPTED, outcome.nonce().getState());
    }

    @Test
    void withNonce_everyEnd() throws Exception {
        String folder = System.getenv("FENCEPOST_TEST_EXTERNAL");
        assertNotNull(folder, "FENCEPOST_TEST_EXTERNAL is not set: run make clients-test");
        account = Files.readString(Path.of(folder, "java")).trim().split("\\s+");
        try (FencepostClient open = FencepostClient.connect(account[0])) {
            client = open;
            String name = account[1];
            assertAccepted(client.withNonce(name, n -> send(n.nonce())));
            failing(name);
            expired(name);
            slow(name);
            submitted(name);
        }
    }

    /** Fencepost broadcasts signed bytes, and the wait lasts to finality. */
    private void submitted(String name) throws Exception {
        AtomicInteger at = new AtomicInteger();
        NonceHandle handle =
                client.withNonce(
                        name,
                        n -> {
                            at.set(3 + 2 * (int) n.nonce());
                            String hex = account[at.get()].substring(2);
                            return NonceResult.signedTx(HexFormat.of().parseHex(hex));
                        });
        NonceHandle.Outcome outcome = handle.await(LIMIT);
        assertEquals(NonceState.NONCE_STATE_ACCEPTED, outcome.nonce().getState());
        Tx tx = outcome.tx().orElseThrow();
        assertEquals(TxState.TX_STATE_CONFIRMED, tx.getState());
        assertEquals(Executed.EXECUTED_SUCCESS, tx.getExecuted());
        assertEquals(account[at.get() + 1], tx.getTxHash());
    }

    @Test
    void withNonce_repliesLost_signedOnce() throws Exception {
        String scripted = System.getenv("FENCEPOST_TEST_SCRIPTED");
        assertNotNull(scripted, "FENCEPOST_TEST_SCRIPTED is not set: run make clients-test");
        try (FencepostClient open = FencepostClient.connect(scripted)) {
            AtomicInteger runs = new AtomicInteger();
            NonceHandle handle =
                    open.withNonce(
                            "alice",
                            n -> {
                                runs.incrementAndGet();
                                return NonceResult.signedTx(new byte[] {7});
                            },
                            new NonceOptions().requestId("java"));
            assertEquals(1, runs.get());
            assertEquals(7, handle.nonce().getNonce());
            assertEquals(NonceState.NONCE_STATE_PENDING, handle.nonce().getState());
        }
    }

    private void failing(String name) throws Exception {
        AtomicReference<NonceContext> unsigned = new AtomicReference<>();
        assertThrows(
                NeverSignedException.class,
                () ->
                        client.withNonce(
                                name,
                                n -> {
                                    unsigned.set(n);
                                    throw new NeverSignedException("not this time");
                                }));
        AtomicReference<NonceContext> thrown = new AtomicReference<>();
        assertThrows(
                IllegalStateException.class,
                () ->
                        client.withNonce(
                                name,
                                n -> {
                                    thrown.set(n);
                                    throw new IllegalStateException("not this time");
                                }));
        assertEquals(unsigned.get().nonce(), thrown.get().nonce());
        String id = thrown.get().reservationId();
        Nonce quarantined = until(id, n -> true);
        assertEquals(NonceState.NONCE_STATE_PENDING, quarantined.getState());
        reportLate(quarantined);
        until(id, n -> n.getState() == NonceState.NONCE_STATE_ACCEPTED);
    }

    /** The process dies after the allocation, and reports late. */
    private void expired(String name) throws Exception {
        Nonce died =
                client.nonces()
                        .allocateNonce(
                                AllocateNonceRequest.newBuilder()
                                        .setSubmitter(name)
                                        .setRequestId("died")
                                        .setTtl(
                                                com.google.protobuf.Duration.newBuilder()
                                                        .setSeconds(1))
                                        .build())
                        .getNonce();
        until(
                died.getReservationId(),
                n -> n.getState() == NonceState.NONCE_STATE_PENDING);
        NonceHandle handle =
                client.withNonce(
                        name,
                        n -> {
                            throw new AssertionError("the reservation has expired");
                        },
                        new NonceOptions().requestId("died"));
        assertEquals(died.getNonce(), handle.nonce().getNonce());
        reportLate(handle.nonce());
        assertAccepted(handle);
    }

    /** A handler that takes longer than a TTL keeps its reservation. */
    private void slow(String name) throws Exception {
        assertAccepted(
                client.withNonce(
                        name,
                        n -> {
                            Nonce first = until(n.reservationId(), now -> true);
                            until(
                                    n.reservationId(),
                                    now ->
                                            now.getExpireTime().getSeconds()
                                                    > first.getExpireTime().getSeconds());
                            return send(n.nonce());
                        },
                        new NonceOptions().ttl(Duration.ofSeconds(2))));
    }
}
