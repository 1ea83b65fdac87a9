import dev.fencepost.signer.v1.CheckAccountRequest;
import dev.fencepost.signer.v1.CheckAccountResponse;
import dev.fencepost.signer.v1.SignTransactionRequest;
import dev.fencepost.signer.v1.SignTransactionResponse;
import dev.fencepost.signer.v1.SignerServiceGrpc;
import com.google.protobuf.ByteString;
import io.grpc.Status;
import io.grpc.stub.StreamObserver;

/**
 * A signer of your own, without its keys: connect {@link Keys} to where they are, and serve it with
 * any gRPC server, with TLS and client certificates.
 *
 * <pre>{@code
 * NettyServerBuilder.forPort(7443).sslContext(...)
 *         .addService(new SignerStub(keys, policy)).build();
 * }</pre>
 */
final class SignerStub extends SignerServiceGrpc.SignerServiceImplBase {
    /** The holder of the keys. */
    interface Keys {
        boolean has(String address);

        /** Returns the signed transaction, as for eth_sendRawTransaction. */
        byte[] sign(SignTransactionRequest transaction) throws Exception;
    }

    /** Allows transactions. One may come several times: count each nonce of an account once. */
    interface Policy {
        boolean allows(SignTransactionRequest transaction);
    }

    private final Keys keys;
    private final Policy policy;

    SignerStub(Keys keys, Policy policy) {
        this.keys = keys;
        this.policy = policy;
    }

    @Override
    public void signTransaction(SignTransactionRequest request,
            StreamObserver<SignTransactionResponse> observer) {
        if (!keys.has(request.getFrom())) {
            // Final: only if there surely is no key.
            observer.onError(Status.NOT_FOUND.withDescription("no such key").asException());
            return;
        }
        if (!policy.allows(request)) {
            // Requested again until the policy allows it, or the transaction is cancelled.
            observer.onError(Status.PERMISSION_DENIED.withDescription("policy").asException());
            return;
        }
        try {
            observer.onNext(SignTransactionResponse.newBuilder()
                    .setSignedTransaction(ByteString.copyFrom(keys.sign(request))).build());
            observer.onCompleted();
        } catch (Exception e) {
            observer.onError(Status.UNAVAILABLE.withDescription("not signed").asException());
        }
    }

    @Override
    public void checkAccount(CheckAccountRequest request,
            StreamObserver<CheckAccountResponse> observer) {
        if (!keys.has(request.getAddress())) {
            observer.onError(Status.NOT_FOUND.withDescription("no such key").asException());
            return;
        }
        observer.onNext(CheckAccountResponse.getDefaultInstance());
        observer.onCompleted();
    }
}
