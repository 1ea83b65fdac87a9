package dev.fencepost.client;

import com.google.protobuf.Duration;

import dev.fencepost.v1.AllocateNonceRequest;
import dev.fencepost.v1.ExtendReservationRequest;
import dev.fencepost.v1.Nonce;
import dev.fencepost.v1.NonceServiceGrpc.NonceServiceBlockingStub;
import dev.fencepost.v1.NonceState;
import dev.fencepost.v1.QuarantineNonceRequest;
import dev.fencepost.v1.RecordNonceHashRequest;
import dev.fencepost.v1.ReleaseNonceRequest;
import dev.fencepost.v1.SubmitSignedRequest;

import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.TimeUnit;

/** A nonce that is reserved while a handler runs. */
final class Reservation {
    private static final int MAX_REASON = 125; // characters; the limit is 512 bytes

    private final FencepostClient client;
    private final Nonce nonce;
    private final Duration ttl;

    private Reservation(FencepostClient client, Nonce nonce, Duration ttl) {
        this.client = client;
        this.nonce = nonce;
        this.ttl = ttl;
    }

    /** Implements {@link FencepostClient#withNonce}. */
    static NonceHandle with(
            FencepostClient client,
            ScheduledExecutorService timer,
            String submitter,
            NonceHandler handler,
            NonceOptions options)
            throws Exception {
        Duration ttl =
                Duration.newBuilder()
                        .setSeconds(options.ttl.getSeconds())
                        .setNanos(options.ttl.getNano())
                        .build();
        AllocateNonceRequest request =
                AllocateNonceRequest.newBuilder()
                        .setSubmitter(submitter)
                        .setRequestId(options.requestId)
                        .setHolder(options.holder)
                        .setTtl(ttl)
                        .build();
        Nonce nonce =
                FencepostException.typed(() -> client.nonces().allocateNonce(request)).getNonce();
        if (nonce.getState() != NonceState.NONCE_STATE_RESERVED) {
            // an earlier call with this request id has ended
            return new NonceHandle(client, nonce);
        }
        Reservation reservation = new Reservation(client, nonce, ttl);
        try {
            NonceResult result = reservation.run(timer, handler, options.ttl.toMillis() / 3);
            return new NonceHandle(client, reservation.report(result));
        } catch (Throwable why) {
            reservation.giveUp(why);
            throw why;
        }
    }

    /** Extends the reservation while the handler runs. */
    private NonceResult run(ScheduledExecutorService timer, NonceHandler handler, long everyMillis)
            throws Exception {
        ScheduledFuture<?> extending =
                timer.scheduleWithFixedDelay(
                        this::extend, everyMillis, everyMillis, TimeUnit.MILLISECONDS);
        try {
            return handler.sign(
                    new NonceContext(
                            nonce.getNonce(),
                            nonce.getChainId(),
                            nonce.getAddress(),
                            nonce.getReservationId()));
        } finally {
            extending.cancel(false);
        }
    }

    private void extend() {
        ExtendReservationRequest request =
                ExtendReservationRequest.newBuilder()
                        .setReservationId(nonce.getReservationId())
                        .setTtl(ttl)
                        .build();
        try {
            stub().extendReservation(request);
        } catch (RuntimeException ignored) {
            // A failure is not the handler's: a report of an expired reservation is accepted too.
        }
    }

    private NonceServiceBlockingStub stub() {
        return client.nonces();
    }

    private Nonce report(NonceResult result) {
        if (result.rawTx != null) {
            SubmitSignedRequest request =
                    SubmitSignedRequest.newBuilder()
                            .setReservationId(nonce.getReservationId())
                            .setRawTx(result.rawTx)
                            .build();
            return FencepostException.typed(() -> stub().submitSigned(request)).getNonce();
        }
        RecordNonceHashRequest request =
                RecordNonceHashRequest.newBuilder()
                        .setReservationId(nonce.getReservationId())
                        .setTxHash(result.txHash)
                        .build();
        return FencepostException.typed(() -> stub().recordNonceHash(request)).getNonce();
    }

    /** Quarantines the nonce, or releases it if nothing was signed for it. */
    private void giveUp(Throwable why) {
        String text = String.valueOf(why);
        String reason = text.substring(0, Math.min(text.length(), MAX_REASON));
        try {
            if (why instanceof NeverSignedException) {
                stub().releaseNonce(
                                ReleaseNonceRequest.newBuilder()
                                        .setReservationId(nonce.getReservationId())
                                        .setNeverSigned(true)
                                        .setReason(reason)
                                        .build());
            } else {
                stub().quarantineNonce(
                                QuarantineNonceRequest.newBuilder()
                                        .setReservationId(nonce.getReservationId())
                                        .setReason(reason)
                                        .build());
            }
        } catch (RuntimeException failed) { // the reservation expires
            why.addSuppressed(failed);
        }
    }
}
