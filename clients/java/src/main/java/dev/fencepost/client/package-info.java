/**
 * The Java client of Fencepost.
 *
 * <p>{@link dev.fencepost.client.FencepostClient} has the generated stubs for every call of the
 * contract. The client adds:
 *
 * <ul>
 *   <li>Retries: a call that fails with UNAVAILABLE is retried up to four times with growing
 *       delays; one that fails with RESOURCE_EXHAUSTED, only if the node sends a retry delay. Both
 *       are safe: an unchanged call cannot act twice.
 *   <li>Typed errors: {@link dev.fencepost.client.FencepostException} has the reason given by the
 *       node.
 *   <li>{@link dev.fencepost.client.Watch}, which resumes automatically when its stream breaks, and
 *       createAndWait, which returns a transaction once it is final.
 * </ul>
 */
package dev.fencepost.client;
