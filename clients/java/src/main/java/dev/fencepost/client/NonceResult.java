package dev.fencepost.client;

import com.google.protobuf.ByteString;

/** The result of a {@link NonceHandler}. */
public final class NonceResult {
    final ByteString rawTx;
    final String txHash;

    private NonceResult(ByteString rawTx, String txHash) {
        this.rawTx = rawTx;
        this.txHash = txHash;
    }

    /** Has Fencepost broadcast a signed transaction, and track it to finality. */
    public static NonceResult signedTx(byte[] rawTx) {
        return new NonceResult(ByteString.copyFrom(rawTx), null);
    }

    /**
     * Reports the hash ("0x" and 64 hex digits) of a transaction that the handler has broadcast
     * itself.
     */
    public static NonceResult sentTx(String txHash) {
        return new NonceResult(null, txHash);
    }
}
