package dev.fencepost.client;

import io.grpc.ClientStreamTracer;
import io.grpc.Metadata;
import io.grpc.Status;

/**
 * The error of the last failed attempt of a call. If a deadline ends the call between two attempts,
 * gRPC reports only the deadline.
 */
final class LastFailure extends ClientStreamTracer.Factory {
    private volatile Status status;

    @Override
    public ClientStreamTracer newClientStreamTracer(
            ClientStreamTracer.StreamInfo info, Metadata headers) {
        return new ClientStreamTracer() {
            @Override
            public void streamClosed(Status end) {
                if (!end.isOk()
                        && end.getCode() != Status.Code.DEADLINE_EXCEEDED
                        && end.getCode() != Status.Code.CANCELLED) {
                    status = end;
                }
            }
        };
    }

    /** Adds the last failure to a passed deadline, unless the node reported it. */
    Status explain(Status end, Metadata trailers) {
        Status last = status;
        if (last == null
                || end.getCode() != Status.Code.DEADLINE_EXCEEDED
                || !FencepostException.of(end.asRuntimeException(trailers))
                        .reasonName()
                        .isEmpty()) {
            return end;
        }
        return end.withDescription(
                end.getDescription() + "; the previous attempt failed: " + text(last));
    }

    /** Returns the message of a status, as in its exception. */
    static String text(Status status) {
        return FencepostException.of(status).getMessage();
    }
}
