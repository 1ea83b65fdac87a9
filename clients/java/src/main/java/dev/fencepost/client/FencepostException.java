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
 * The error of a failed call. A {@link Watch} and createAndWait throw it. The generated stubs can
 * throw nothing but StatusRuntimeException; {@link #typed} calls them with this exception instead,
 * and {@link #of} makes one of theirs:
 *
 * <pre>{@code
 * Tx tx = FencepostException.typed(() -> client.txs().createTx(request)).getTx();
 * }</pre>
 */
public final class FencepostException extends RuntimeException {
    private static final String ERROR_DOMAIN = "fencepost.dev";
    private static final String CONNECTION_FAILED =
            "io exception"; // gRPC's text, possibly followed by a list of its handlers

    /** One invalid field of a request, such as "payload.to", and the rule it breaks. */
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
                addSuppressed(e); // message and code are still right
            }
        }
    }

    /** Converts an exception of a stub; anything that does not come from a call is UNKNOWN. */
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
            Duration retry = Duration.ofSeconds(delay.getSeconds(), delay.getNanos());
            retryAfter = retry.isNegative() ? Duration.ZERO : retry;
        } else if (detail.is(RequestInfo.class)) {
            requestId = detail.unpack(RequestInfo.class).getRequestId();
        } else if (detail.is(BadRequest.class)) {
            detail.unpack(BadRequest.class)
                    .getFieldViolationsList()
                    .forEach(v -> violations.add(new Violation(v.getField(), v.getDescription())));
        }
    }

    @Override
    public String getMessage() {
        String name = reasonName.isEmpty() ? "" : " (" + reasonName + ")";
        String text = text();
        return status.getCode() + name + (text.isEmpty() ? "" : ": " + text);
    }

    /**
     * The node's message. If gRPC has none, or only a generic one about a connection, the cause:
     * for example that an address refused it.
     */
    private String text() {
        String text = status.getDescription() == null ? "" : status.getDescription();
        Throwable cause = status.getCause();
        if (cause == null || !text.isEmpty() && !text.startsWith(CONNECTION_FAILED)) {
            return text;
        }
        if (text.isEmpty()) {
            return cause.toString();
        }
        return CONNECTION_FAILED + (cause.getMessage() == null ? "" : ": " + cause.getMessage());
    }

    /** The gRPC status. */
    Status status() {
        return status;
    }

    /** The gRPC code. */
    public Status.Code code() {
        return status.getCode();
    }

    /**
     * The exact reason. UNSPECIFIED if the error does not come from a node (no connection, a
     * deadline, a proxy), or the client is too old to know it.
     */
    public ErrorReason reason() {
        try {
            return ErrorReason.valueOf("ERROR_REASON_" + reasonName);
        } catch (IllegalArgumentException e) {
            return ErrorReason.ERROR_REASON_UNSPECIFIED;
        }
    }

    /**
     * The reason as sent by the node, such as "SUBMITTER_PAUSED"; empty if the error does not come
     * from a node.
     */
    public String reasonName() {
        return reasonName;
    }

    /** The minimum delay before a retry; zero if the node sent none. */
    public Duration retryAfter() {
        return retryAfter;
    }

    /** Identifies the call in the node's log; set only for a defect of the node. */
    public String requestId() {
        return requestId;
    }

    /** The invalid fields of the request. */
    public List<Violation> violations() {
        return List.copyOf(violations);
    }

    /**
     * Reports whether a watch can resume after the error, as {@link Watch} does: the node is
     * unavailable or overloaded, or the connection was lost. Other errors from a node are final. So
     * are errors from the client itself: it is closed, the caller ended the call, or the thread was
     * interrupted.
     */
    public boolean resumable() {
        if (isOwn()) {
            return false;
        }
        return switch (code()) {
            case UNAVAILABLE -> true;
            case RESOURCE_EXHAUSTED -> hasRetryDelay();
            case INTERNAL, UNKNOWN, CANCELLED, ABORTED -> reasonName.isEmpty();
            default -> false;
        };
    }

    /**
     * Reports whether the client or its caller ended the call. An error from the network can have
     * the same code, but not these causes.
     */
    private boolean isOwn() {
        Throwable cause = status.getCause();
        return code() == Status.Code.CANCELLED
                && (cause instanceof CallPolicy.Own || cause instanceof InterruptedException);
    }

    /** Reports whether the node sent a retry delay. */
    boolean hasRetryDelay() {
        return code() == Status.Code.RESOURCE_EXHAUSTED && !retryAfter.isZero();
    }
}
