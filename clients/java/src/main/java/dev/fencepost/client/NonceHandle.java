package dev.fencepost.client;

import dev.fencepost.v1.GetNonceRequest;
import dev.fencepost.v1.GetTxRequest;
import dev.fencepost.v1.Nonce;
import dev.fencepost.v1.NonceState;
import dev.fencepost.v1.Tx;
import dev.fencepost.v1.TxState;

import io.grpc.Status;

import java.time.Duration;
import java.util.EnumSet;
import java.util.Optional;
import java.util.Set;

/** A nonce whose transaction was reported. */
public final class NonceHandle {
    private static final Duration POLL = Duration.ofSeconds(1);

    /** States that lead to another one without an operator. */
    private static final Set<TxState> MOVING =
            EnumSet.of(
                    TxState.TX_STATE_QUEUED,
                    TxState.TX_STATE_ALLOCATED,
                    TxState.TX_STATE_TRACKING);

    private final FencepostClient client;
    private final Nonce nonce;

    NonceHandle(FencepostClient client, Nonce nonce) {
        this.client = client;
        this.nonce = nonce;
    }

    /** Returns the nonce as it was reported. */
    public Nonce nonce() {
        return nonce;
    }

    /**
     * The end of a nonce.
     *
     * @param nonce ACCEPTED, which is final, or RECYCLABLE, because it was never used
     * @param tx the transaction that Fencepost tracks for it, if any; it is final too, or STUCK,
     *     which is for an operator
     */
    public record Outcome(Nonce nonce, Optional<Tx> tx) {}

    /**
     * Returns once the nonce is ACCEPTED or RECYCLABLE. After the limit the wait ends with
     * DEADLINE_EXCEEDED; the same call waits again.
     *
     * @throws FencepostException if the wait ends early
     * @throws InterruptedException if the thread is interrupted
     */
    public Outcome await(Duration limit) throws InterruptedException {
        long end = System.nanoTime() + Options.nanos(limit);
        GetNonceRequest get =
                GetNonceRequest.newBuilder().setReservationId(nonce.getReservationId()).build();
        while (true) {
            Nonce now = FencepostException.typed(() -> client.nonces().getNonce(get)).getNonce();
            if (now.getState() == NonceState.NONCE_STATE_ACCEPTED
                    || now.getState() == NonceState.NONCE_STATE_RECYCLABLE) {
                Optional<Tx> tx = transaction(now.getTxId());
                if (tx.isEmpty() || !MOVING.contains(tx.get().getState())) {
                    return new Outcome(now, tx);
                }
            }
            if (System.nanoTime() - end > -POLL.toNanos()) {
                throw FencepostException.of(
                        Status.DEADLINE_EXCEEDED.withDescription(
                                "nonce is not final yet; call again to continue waiting"));
            }
            Thread.sleep(POLL.toMillis());
        }
    }

    private Optional<Tx> transaction(String id) {
        if (id.isEmpty()) {
            return Optional.empty();
        }
        GetTxRequest get = GetTxRequest.newBuilder().setTxId(id).build();
        return Optional.of(FencepostException.typed(() -> client.txs().getTx(get)).getTx());
    }
}
