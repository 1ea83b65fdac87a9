package dev.fencepost.client;

/** Signs a transaction for a reserved nonce. */
@FunctionalInterface
public interface NonceHandler {
    /**
     * Signs, and perhaps broadcasts, a transaction.
     *
     * @throws NeverSignedException if it has signed nothing for the nonce and never will
     * @throws Exception a signed transaction may exist
     */
    NonceResult sign(NonceContext nonce) throws Exception;
}
