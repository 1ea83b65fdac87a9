/**
 * The Java client of Fencepost.
 *
 * <p>{@link dev.fencepost.client.FencepostClient} gives the generated stubs, so every call of the contract is there. What the client adds is small:
 *
 * <ul>
 *   <li>A call that fails with UNAVAILABLE is repeated, up to four times with growing pauses; one that fails with RESOURCE_EXHAUSTED is repeated only if the node
 *       says when. Both are safe: a call of Fencepost that is repeated unchanged cannot act twice.
 *   <li>{@link dev.fencepost.client.FencepostException} has the reason that the node gave.
 *   <li>A {@link dev.fencepost.client.Watch} resumes by itself when its stream breaks; createAndWait creates a transaction and returns it once it is final.
 * </ul>
 */
package dev.fencepost.client;
