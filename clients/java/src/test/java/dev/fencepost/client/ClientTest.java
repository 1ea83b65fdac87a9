package dev.fencepost.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.fencepost.v1.CreateTxRequest;
import dev.fencepost.v1.ErrorReason;
import dev.fencepost.v1.Executed;
import dev.fencepost.v1.GetTxRequest;
import dev.fencepost.v1.ListTxsRequest;
import dev.fencepost.v1.Payload;
import dev.fencepost.v1.RequestKey;
import dev.fencepost.v1.Tx;
import dev.fencepost.v1.TxIds;
import dev.fencepost.v1.TxServiceGrpc;
import dev.fencepost.v1.TxState;
import dev.fencepost.v1.WatchTxRequest;
import dev.fencepost.v1.WatchTxResponse;

import io.grpc.Status;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.MethodSource;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.Consumer;

class ClientTest {
    /**
     * Returns an address or value that {@code make clients-test} provides: of a real node, or of
     * the scripted server (e2e/clients_scripted_test.go).
     */
    private static String setting(String name) {
        String value = System.getenv("FENCEPOST_TEST_" + name);
        assertNotNull(value, "FENCEPOST_TEST_" + name + " is not set: run make clients-test");
        return value;
    }

    private static FencepostClient scripted(Options options) {
        return FencepostClient.connect(setting("SCRIPTED"), options);
    }

    private static Tx create(FencepostClient client, String what) {
        CreateTxRequest request =
                CreateTxRequest.newBuilder()
                        .setSubmitter("alice")
                        .setRequestId("java/" + what)
                        .setPayload(Payload.getDefaultInstance())
                        .build();
        return FencepostException.typed(() -> client.txs().createTx(request)).getTx();
    }

    /** Returns how often a request reached the node. */
    private static long calls(FencepostClient client, String what) {
        RequestKey key =
                RequestKey.newBuilder().setSubmitter("alice").setRequestId("java/" + what).build();
        return client.txs()
                .getTx(GetTxRequest.newBuilder().setRequest(key).build())
                .getTx()
                .getVersion();
    }

    @ParameterizedTest
    @CsvSource({"flaky", "busy"})
    void repeatsWhatMayBeRepeated(String what) {
        try (FencepostClient client = scripted(new Options())) {
            assertEquals(3, create(client, what).getVersion());
        }
    }

    @ParameterizedTest
    @CsvSource({
        "full,RESOURCE_EXHAUSTED,UNSPECIFIED,'','',0",
        "wrong,INVALID_ARGUMENT,INVALID_FIELD,INVALID_FIELD,'',0",
        "defect,INTERNAL,INTERNAL,INTERNAL,call-1,0",
        "novel,FAILED_PRECONDITION,UNSPECIFIED,NOT_INVENTED_YET,'',1500",
    })
    void errorsAreTyped(
            String what,
            Status.Code code,
            String reason,
            String reasonName,
            String requestId,
            long retryAfter) {
        try (FencepostClient client = scripted(new Options())) {
            FencepostException e =
                    assertThrows(FencepostException.class, () -> create(client, what));
            assertEquals(code, e.code());
            assertEquals(ErrorReason.valueOf("ERROR_REASON_" + reason), e.reason());
            assertEquals(reasonName, e.reasonName());
            assertEquals(requestId, e.requestId());
            assertEquals(Duration.ofMillis(retryAfter), e.retryAfter());
            assertTrue(e.getMessage().contains("scripted"), e.getMessage());
            assertEquals(
                    what.equals("wrong")
                            ? List.of(
                                    new FencepostException.Violation(
                                            "payload.to", "must be an address"))
                            : List.of(),
                    e.violations());
            assertEquals(1, calls(client, what), "calls in all");
        }
    }

    @Test
    void call_timeout() {
        try (FencepostClient client = scripted(new Options().timeout(Duration.ofMillis(200)))) {
            FencepostException e =
                    assertThrows(FencepostException.class, () -> create(client, "slow"));
            assertEquals(Status.Code.DEADLINE_EXCEEDED, e.code());
        }
    }

    @Test
    void connect_tlsAndToken() throws IOException {
        byte[] ca = pem("ca.pem");
        byte[] certificate = pem("client.pem");
        byte[] key = pem("client-key.pem");
        Options good =
                new Options().tls(new Tls(ca, certificate, key, "node.test")).token("secret");
        try (FencepostClient client = FencepostClient.connect(setting("TLS"), good)) {
            Tx tx = create(client, "whoami");
            assertEquals(
                    List.of("Bearer secret", "caller"), List.of(tx.getLastError(), tx.getReason()));
        }
        List<Tls> bad =
                List.of(
                        new Tls(ca, certificate, key, "other.test"),
                        new Tls(ca, null, null, "node.test"),
                        new Tls(certificate, certificate, key, "node.test"));
        for (Tls tls : bad) {
            try (FencepostClient client =
                    FencepostClient.connect(
                            setting("TLS"),
                            new Options().tls(tls).timeout(Duration.ofSeconds(1)))) {
                FencepostException e =
                        assertThrows(FencepostException.class, () -> create(client, "whoami"));
                assertTrue(
                        Set.of(Status.Code.UNAVAILABLE, Status.Code.DEADLINE_EXCEEDED)
                                .contains(e.code()),
                        e.getMessage());
            }
        }
        assertThrows(
                IllegalArgumentException.class,
                () -> FencepostClient.connect("127.0.0.1:1", new Options().token("secret")));
    }

    @Test
    void connect_guardedNode() throws IOException {
        Tls tls = new Tls(pem("ca.pem"), pem("client.pem"), pem("client-key.pem"), "node.test");
        CreateTxRequest request =
                CreateTxRequest.newBuilder()
                        .setSubmitter("s02")
                        .setRequestId("java/guarded")
                        .setPayload(
                                Payload.newBuilder()
                                        .setTo("0x00000000000000000000000000000000000000aa")
                                        .setValue("1"))
                        .build();
        for (Options lacking :
                List.of(
                        new Options().tls(tls),
                        new Options().tls(tls).token("some-other-token-0123456789"))) {
            try (FencepostClient client = FencepostClient.connect(setting("GUARDED"), lacking)) {
                FencepostException e =
                        assertThrows(
                                FencepostException.class,
                                () -> client.createAndWait(request, Duration.ofMinutes(1)));
                assertEquals(Status.Code.UNAUTHENTICATED, e.code());
                assertEquals(ErrorReason.ERROR_REASON_UNAUTHENTICATED, e.reason());
            }
        }
        try (FencepostClient client =
                FencepostClient.connect(
                        setting("GUARDED"), new Options().tls(tls).token(setting("TOKEN")))) {
            assertEquals(
                    TxState.TX_STATE_CONFIRMED,
                    client.createAndWait(request, Duration.ofMinutes(1)).getState());
        }
    }

    private static byte[] pem(String name) throws IOException {
        return Files.readAllBytes(Path.of(setting("CERTS"), name));
    }

    private static Watch watch(FencepostClient client, String what) {
        return client.watch(WatchTxRequest.newBuilder().setSubmitter("java/" + what).build());
    }

    /** Reads a watch up to a number of messages. */
    private static void receive(Watch watch, int most, List<String> all) {
        while (all.size() < most && watch.hasNext()) {
            WatchTxResponse m = watch.next();
            all.add(
                    switch (m.getMessageCase()) {
                        case EVENT -> m.getEvent().getTxId() + " " + m.getEvent().getSeq();
                        case SNAPSHOT ->
                                m.getSnapshot().getTxId()
                                        + " as of "
                                        + m.getSnapshot().getVersion();
                        default -> "heartbeat";
                    });
        }
    }

    @ParameterizedTest
    @CsvSource({
        "drains,tx 1;tx 2",
        "ends,tx 1;tx 2",
        "silent,tx 1;tx 2",
        "snapshots,kept as of 2;heartbeat;kept 3;new 1"
    })
    void aWatchResumes(String what, String want) {
        try (FencepostClient client = scripted(new Options().heartbeat(Duration.ofMillis(200)));
                Watch watch = watch(client, what)) {
            List<String> all = new ArrayList<>();
            receive(watch, want.split(";").length, all);
            assertEquals(want, String.join(";", all));
        }
    }

    /** Snapshots include final transactions, and the watch ends with the stream. */
    @Test
    void watch_several() {
        WatchTxRequest request =
                WatchTxRequest.newBuilder()
                        .setTxs(TxIds.newBuilder().addTxIds("java/several").addTxIds("another"))
                        .setUntilFinal(true)
                        .build();
        try (FencepostClient client = scripted(new Options());
                Watch watch = client.watch(request)) {
            List<String> all = new ArrayList<>();
            receive(watch, 100, all);
            assertEquals("done as of 5;on as of 1;heartbeat;on 2;on 3", String.join(";", all));
        }
    }

    @ParameterizedTest
    @CsvSource({
        "expired,RESUME_TOKEN_EXPIRED,1",
        "refused,SUBMITTER_NOT_FOUND,0",
        "down,STORE_UNAVAILABLE,0"
    })
    void aWatchSurfacesWhatOnlyTheCallerCanDecide(String what, String reason, int events) {
        try (FencepostClient client = scripted(new Options().patience(Duration.ofMillis(500)));
                Watch watch = watch(client, what)) {
            List<String> all = new ArrayList<>();
            FencepostException e =
                    assertThrows(FencepostException.class, () -> receive(watch, 10, all));
            assertEquals(ErrorReason.valueOf("ERROR_REASON_" + reason), e.reason());
            assertEquals(events, all.size());
            assertFalse(watch.hasNext());
        }
    }

    /** A stream that broke while the caller was busy is resumed. */
    @Test
    void watch_slowCaller_resumes() throws Exception {
        try (FencepostClient client = scripted(new Options().patience(Duration.ofMillis(200)));
                Watch watch = watch(client, "slow/drains")) {
            assertEquals(1, watch.next().getEvent().getSeq());
            Thread.sleep(400);
            assertEquals(2, watch.next().getEvent().getSeq());
        }
    }

    @Test
    void watch_closed_ends() throws Exception {
        try (FencepostClient client = scripted(new Options());
                Watch watch = watch(client, "closed/silent")) {
            watch.next();
            CompletableFuture<Boolean> more = CompletableFuture.supplyAsync(watch::hasNext);
            watch.close();
            assertFalse(more.get(5, TimeUnit.SECONDS));
        }
    }

    /** Runs a call on its own daemon thread and returns its error. */
    private static CompletableFuture<Void> begin(Runnable call) {
        CompletableFuture<Void> ended = new CompletableFuture<>();
        Thread thread =
                new Thread(
                        () -> {
                            try {
                                call.run();
                                ended.complete(null);
                            } catch (Throwable thrown) {
                                ended.completeExceptionally(thrown);
                            }
                        });
        thread.setDaemon(true);
        thread.start();
        return ended;
    }

    private static FencepostException failure(CompletableFuture<Void> ended) {
        ExecutionException e =
                assertThrows(ExecutionException.class, () -> ended.get(5, TimeUnit.SECONDS));
        return assertInstanceOf(FencepostException.class, e.getCause());
    }

    private static void assertGoesOn(CompletableFuture<Void> call) {
        assertThrows(TimeoutException.class, () -> call.get(500, TimeUnit.MILLISECONDS));
    }

    private static CreateTxRequest request(String what) {
        return CreateTxRequest.newBuilder()
                .setSubmitter("alice")
                .setRequestId("java/" + what)
                .setPayload(Payload.getDefaultInstance())
                .build();
    }

    static Map<String, Consumer<FencepostClient>> underWay() {
        return Map.of(
                "watch", client -> receive(watch(client, "shut/silent"), 10, new ArrayList<>()),
                "watch in a wait",
                        client -> receive(watch(client, "shut/down"), 10, new ArrayList<>()),
                "call", client -> create(client, "shut/slow"),
                "call in a wait", client -> create(client, "shut/later"),
                "call of a future",
                        client -> {
                            try {
                                TxServiceGrpc.newFutureStub(client.channel())
                                        .createTx(request("shut/future/later"))
                                        .get();
                            } catch (InterruptedException | ExecutionException e) {
                                throw FencepostException.of(e.getCause());
                            }
                        },
                "stream of a stub",
                        client ->
                                FencepostException.typed(
                                        () -> {
                                            client.txs()
                                                    .watchTx(
                                                            WatchTxRequest.newBuilder()
                                                                    .setSubmitter(
                                                                            "java/shut/stub/silent")
                                                                    .build())
                                                    .forEachRemaining(message -> {});
                                            return null;
                                        }),
                "create and wait",
                        client ->
                                client.createAndWait(
                                        request("shut/wait/later"), Duration.ofMinutes(1)));
    }

    static Set<String> namesOfUnderWay() {
        return underWay().keySet();
    }

    @ParameterizedTest
    @MethodSource("namesOfUnderWay")
    void closeEndsWhatIsUnderWayAndRefusesWhatComesLater(String what) {
        FencepostClient client = scripted(new Options());
        CompletableFuture<Void> call = begin(() -> underWay().get(what).accept(client));
        assertGoesOn(call);
        client.close();
        for (CompletableFuture<Void> ended :
                List.of(call, begin(() -> underWay().get(what).accept(client)))) {
            FencepostException e = failure(ended);
            assertEquals(Status.Code.CANCELLED, e.code(), e.getMessage());
            assertTrue(e.getMessage().contains("client is closed"), e.getMessage());
        }
    }

    @Test
    void call_interrupted_endsPendingRetry() throws Exception {
        try (FencepostClient client = scripted(new Options())) {
            CompletableFuture<Thread> thread = new CompletableFuture<>();
            CompletableFuture<Void> call =
                    begin(
                            () -> {
                                thread.complete(Thread.currentThread());
                                create(client, "interrupted/later");
                            });
            assertGoesOn(call);
            thread.get().interrupt();
            assertEquals(Status.Code.CANCELLED, failure(call).code());
        }
    }

    @ParameterizedTest
    @CsvSource({"limit/slow,DEADLINE_EXCEEDED", "limit/later,RESOURCE_EXHAUSTED"})
    void createAndWaitKeepsItsLimit(String what, Status.Code code) {
        try (FencepostClient client = scripted(new Options())) {
            assertEquals(
                    code,
                    failure(begin(() -> client.createAndWait(request(what), Duration.ofSeconds(1))))
                            .code());
        }
    }

    @Test
    void call_largeResponse() {
        try (FencepostClient client = scripted(new Options())) {
            assertEquals(
                    50, client.txs().listTxs(ListTxsRequest.getDefaultInstance()).getTxsCount());
        }
    }

    @ParameterizedTest
    @CsvSource({"0,0", "-1,0", "0,1000", "10000000000,0", "9223372036854775807,999999999"})
    void aHeartbeatThatNoNodeGrantsIsRefusedByTheNode(long seconds, int nanos) {
        WatchTxRequest request =
                WatchTxRequest.newBuilder()
                        .setSubmitter("java/picky")
                        .setHeartbeat(
                                com.google.protobuf.Duration.newBuilder()
                                        .setSeconds(seconds)
                                        .setNanos(nanos))
                        .build();
        try (FencepostClient client = scripted(new Options().patience(Duration.ofMillis(200)));
                Watch watch = client.watch(request)) {
            assertEquals(
                    ErrorReason.ERROR_REASON_INVALID_FIELD,
                    assertThrows(FencepostException.class, watch::hasNext).reason());
        }
    }

    /** Returns the errors of six concurrent creates on a queue with one place. */
    private static List<FencepostException> createSix(Duration limit) {
        try (FencepostClient client = FencepostClient.connect(setting("NARROW"))) {
            client.txs()
                    .listTxs(
                            ListTxsRequest.newBuilder()
                                    .setPageSize(1)
                                    // connects, so that short deadlines below do not include it
                                    .build());
            List<CompletableFuture<FencepostException>> ended = new ArrayList<>();
            for (int i = 0; i < 6; i++) {
                CreateTxRequest request =
                        CreateTxRequest.newBuilder()
                                .setSubmitter("s02")
                                .setRequestId("java/full/" + i)
                                .setPayload(
                                        Payload.newBuilder()
                                                .setTo("0x00000000000000000000000000000000000000aa")
                                                .setValue("1"))
                                .build();
                CompletableFuture<FencepostException> one = new CompletableFuture<>();
                new Thread(
                                () -> {
                                    try {
                                        FencepostException.typed(
                                                () ->
                                                        client.txs()
                                                                .withDeadlineAfter(
                                                                        limit.toMillis(),
                                                                        TimeUnit.MILLISECONDS)
                                                                .createTx(request));
                                        one.complete(null);
                                    } catch (FencepostException e) {
                                        one.complete(e);
                                    }
                                })
                        .start();
                ended.add(one);
            }
            return ended.stream().map(CompletableFuture::join).toList();
        }
    }

    @Test
    void call_queueFull_retriedAfterDelay() {
        long full = 0;
        for (FencepostException e : createSix(Duration.ofMillis(900))) { // too short for a retry
            if (e != null && e.code() != Status.Code.DEADLINE_EXCEEDED) {
                assertEquals(ErrorReason.ERROR_REASON_QUEUE_FULL, e.reason(), e.getMessage());
                assertEquals(Status.Code.RESOURCE_EXHAUSTED, e.code());
                assertTrue(
                        e.retryAfter().compareTo(Duration.ofSeconds(1)) >= 0,
                        e.retryAfter().toString());
                full++;
            }
        }
        assertTrue(full > 0, "nothing was full");
        for (FencepostException e : createSix(Duration.ofMinutes(1))) {
            assertEquals(null, e);
        }
    }

    @Test
    void createAndWait() {
        CreateTxRequest request =
                CreateTxRequest.newBuilder()
                        .setSubmitter("s02")
                        .setRequestId("java/wait")
                        .setPayload(
                                Payload.newBuilder()
                                        .setTo("0x00000000000000000000000000000000000000aa")
                                        .setValue("1"))
                        .build();
        try (FencepostClient client = FencepostClient.connect(setting("NODE"))) {
            FencepostException late =
                    assertThrows(
                            FencepostException.class,
                            () -> client.createAndWait(request, Duration.ZERO));
            assertEquals(Status.Code.DEADLINE_EXCEEDED, late.code());
            for (int time = 0; time < 2; time++) { // the second call finds it final
                Tx tx = client.createAndWait(request, ChronoUnit.FOREVER.getDuration());
                assertEquals(TxState.TX_STATE_CONFIRMED, tx.getState());
                assertEquals(Executed.EXECUTED_SUCCESS, tx.getExecuted());
                assertTrue(tx.hasReceipt());
            }
            CreateTxRequest other =
                    request.toBuilder()
                            .setPayload(request.getPayload().toBuilder().setValue("2"))
                            .build();
            FencepostException e =
                    assertThrows(
                            FencepostException.class,
                            () -> client.createAndWait(other, Duration.ofMinutes(1)));
            assertEquals(ErrorReason.ERROR_REASON_IDEMPOTENCY_KEY_REUSED, e.reason());
        }
    }
}
