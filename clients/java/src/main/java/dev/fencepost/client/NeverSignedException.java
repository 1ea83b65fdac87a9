package dev.fencepost.client;

/**
 * Thrown by a {@link NonceHandler} that has signed nothing for its nonce and never will: the nonce
 * is reserved for another call. Use it only if that is certain.
 */
public final class NeverSignedException extends RuntimeException {
    private static final long serialVersionUID = 1;

    /** Gives the reason. */
    public NeverSignedException(String message) {
        super(message);
    }

    /** Gives the reason and its cause. */
    public NeverSignedException(String message, Throwable cause) {
        super(message, cause);
    }
}
