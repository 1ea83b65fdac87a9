package dev.fencepost.client;

/**
 * A reserved nonce, for the handler of {@link FencepostClient#withNonce}.
 *
 * @param nonce an unsigned number
 * @param chainId an unsigned number
 * @param from address of the account
 * @param reservationId id of the reservation
 */
public record NonceContext(long nonce, long chainId, String from, String reservationId) {}
