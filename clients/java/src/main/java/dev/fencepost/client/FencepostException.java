package dev.fencepost.client;

import com.google.protobuf.Any;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.rpc.BadRequest;
import com.google.rpc.ErrorInfo;
import com.google.rpc.RequestInfo;
import com.google.rpc.RetryInfo;
import dev.fencepost.v1.ErrorReason;
import io.grpc.Metadata;
import io.grpc.Status;
import io.grpc.StatusException;
import io.grpc.StatusRuntimeException;
import io.grpc.protobuf.StatusProto;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Supplier;

/**
 * Why a call failed. A {@link Watch} and createAndWait throw it. The generated stubs can throw nothing but StatusRuntimeException; {@link #typed} calls them with
 * this exception instead, and {@link #of} makes one of theirs:
 *
 * <pre>{@code
 * Tx tx = FencepostException.typed(() -> client.txs().createTx(request)).getTx();
 * }</pre>
 */
public final class FencepostException extends RuntimeException {
    private static final String ERROR_DOMAIN = "fencepost.dev";
    private static final String CONNECTION_FAILED = "io exception"; // gRPC's words, which a list of its handlers may follow

    /** One thing that is wrong with a request: the path of the field, for example "payload.to", and what must hold. */
    public record Violation(String field, String description) {}

    private final transient Status status;
    private String reasonName = "";
    private Duration retryAfter = Duration.ZERO;
    private String requestId = "";
    private final transient List<Violation> violations = new ArrayList<>();

    private FencepostException(Status status, Metadata trailers, Throwable cause) {
        super(cause);
        this.status = status;
        com.google.rpc.Status details = StatusProto.fromStatusAndTrailers(status, trailers);
        for (Any detail : details.getDetailsList()) {
            try {
                read(detail);
            } catch (InvalidProtocolBufferException e) {
                addSuppressed(e); // the sentence and the code are still right
            }
        }
    }

    /** Makes one of what a stub threw; anything that did not come from a call is UNKNOWN. */
    public static FencepostException of(Throwable thrown) {
        if (thrown instanceof FencepostException e) {
            return e;
        }
        Metadata trailers = null;
        if (thrown instanceof StatusRuntimeException e) {
            trailers = e.getTrailers();
        } else if (thrown instanceof StatusException e) {
            trailers = e.getTrailers();
        }
        return new FencepostException(Status.fromThrowable(thrown), trailers, thrown);
    }

    static FencepostException of(Status status) {
        return of(status.asRuntimeException());
    }

    /** Calls a stub, and throws a FencepostException instead of a StatusRuntimeException. */
    public static <T> T typed(Supplier<T> call) {
        try {
            return call.get();
        } catch (StatusRuntimeException e) {
            throw of(e);
        }
    }

    private void read(Any detail) throws InvalidProtocolBufferException {
        if (detail.is(ErrorInfo.class)) {
            ErrorInfo info = detail.unpack(ErrorInfo.class);
            reasonName = info.getDomain().equals(ERROR_DOMAIN) ? info.getReason() : "";
        } else if (detail.is(RetryInfo.class)) {
            com.google.protobuf.Duration delay = detail.unpack(RetryInfo.class).getRetryDelay();
            Duration told = Duration.ofSeconds(delay.getSeconds(), delay.getNanos());
            retryAfter = told.isNegative() ? Duration.ZERO : told;
        } else if (detail.is(RequestInfo.class)) {
            requestId = detail.unpack(RequestInfo.class).getRequestId();
        } else if (detail.is(BadRequest.class)) {
            detail.unpack(BadRequest.class).getFieldViolationsList().forEach(v -> violations.add(new Violation(v.getField(), v.getDescription())));
        }
    }

    @Override
    public String getMessage() {
        String name = reasonName.isEmpty() ? "" : " (" + reasonName + ")";
        String said = sentence();
        return status.getCode() + name + (said.isEmpty() ? "" : ": " + said);
    }

    /** The node's words; where gRPC has none, or only these two about a connection, what is behind them: that it was refused, for example, and by whom. */
    private String sentence() {
        String said = status.getDescription() == null ? "" : status.getDescription();
        Throwable cause = status.getCause();
        if (cause == null || !said.isEmpty() && !said.startsWith(CONNECTION_FAILED)) {
            return said;
        }
        if (said.isEmpty()) {
            return cause.toString();
        }
        return CONNECTION_FAILED + (cause.getMessage() == null ? "" : ": " + cause.getMessage());
    }

    /** The error as gRPC has it. */
    Status status() {
        return status;
    }

    /** The class of the error. */
    public Status.Code code() {
        return status.getCode();
    }

    /** What exactly; UNSPECIFIED if the error is not a node's (no connection, a deadline, a proxy in between), or this client does not know it. */
    public ErrorReason reason() {
        try {
            return ErrorReason.valueOf("ERROR_REASON_" + reasonName);
        } catch (IllegalArgumentException e) {
            return ErrorReason.ERROR_REASON_UNSPECIFIED;
        }
    }

    /** The reason as the node wrote it, "SUBMITTER_PAUSED" for example; empty if the error is not a node's. */
    public String reasonName() {
        return reasonName;
    }

    /** When to repeat the call at the earliest; zero if the node does not say. */
    public Duration retryAfter() {
        return retryAfter;
    }

    /** Names the call in the node's log; empty unless the error is a defect of the node. */
    public String requestId() {
        return requestId;
    }

    /** The fields of the request that are wrong. */
    public List<Violation> violations() {
        return List.copyOf(violations);
    }

    /**
     * Tells whether a watch that fails with it goes on with another stream, as {@link Watch} does: a node that cannot go on, or has no room now, and whatever the
     * network and what stands in it make of a lost connection. Any other answer of a node is an answer; and what the client says by itself stays so: it is closed,
     * the caller ended the call, or the thread was interrupted.
     */
    public boolean resumable() {
        if (isOwn()) {
            return false;
        }
        return switch (code()) {
            case UNAVAILABLE -> true;
            case RESOURCE_EXHAUSTED -> asksForPatience();
            case INTERNAL, UNKNOWN, CANCELLED, ABORTED -> reasonName.isEmpty();
            default -> false;
        };
    }

    /** Tells whether the client, or its caller, ended the call. What comes over a connection can say the same words; it has no cause of these kinds. */
    private boolean isOwn() {
        Throwable cause = status.getCause();
        return code() == Status.Code.CANCELLED && (cause instanceof Patience.Own || cause instanceof InterruptedException);
    }

    /** Tells whether a node asks to repeat the call after a while. */
    boolean asksForPatience() {
        return code() == Status.Code.RESOURCE_EXHAUSTED && !retryAfter.isZero();
    }
}
