package dev.fencepost.signer.v1;

import static io.grpc.MethodDescriptor.generateFullMethodName;

/**
 * <pre>
 * SignerService is implemented by a signer of your own, and called by Fencepost's nodes. The signer
 * holds the keys and may apply a policy; examples/signer is a small one.
 * A node decodes each result and compares it with its request, so a faulty signer cannot send
 * another transaction. An error delays the transaction, with one exception: NOT_FOUND means that
 * the signer has no key for the account, and fails a transaction that was never signed. Messages of
 * errors are logged by the node; they must contain no secret.
 * </pre>
 */
@io.grpc.stub.annotations.GrpcGenerated
public final class SignerServiceGrpc {

  private SignerServiceGrpc() {}

  public static final java.lang.String SERVICE_NAME = "fencepost.signer.v1.SignerService";

  // Static method descriptors that strictly reflect the proto.
  private static volatile io.grpc.MethodDescriptor<dev.fencepost.signer.v1.SignTransactionRequest,
      dev.fencepost.signer.v1.SignTransactionResponse> getSignTransactionMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "SignTransaction",
      requestType = dev.fencepost.signer.v1.SignTransactionRequest.class,
      responseType = dev.fencepost.signer.v1.SignTransactionResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.fencepost.signer.v1.SignTransactionRequest,
      dev.fencepost.signer.v1.SignTransactionResponse> getSignTransactionMethod() {
    io.grpc.MethodDescriptor<dev.fencepost.signer.v1.SignTransactionRequest, dev.fencepost.signer.v1.SignTransactionResponse> getSignTransactionMethod;
    if ((getSignTransactionMethod = SignerServiceGrpc.getSignTransactionMethod) == null) {
      synchronized (SignerServiceGrpc.class) {
        if ((getSignTransactionMethod = SignerServiceGrpc.getSignTransactionMethod) == null) {
          SignerServiceGrpc.getSignTransactionMethod = getSignTransactionMethod =
              io.grpc.MethodDescriptor.<dev.fencepost.signer.v1.SignTransactionRequest, dev.fencepost.signer.v1.SignTransactionResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "SignTransaction"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.fencepost.signer.v1.SignTransactionRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.fencepost.signer.v1.SignTransactionResponse.getDefaultInstance()))
              .setSchemaDescriptor(new SignerServiceMethodDescriptorSupplier("SignTransaction"))
              .build();
        }
      }
    }
    return getSignTransactionMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.fencepost.signer.v1.CheckAccountRequest,
      dev.fencepost.signer.v1.CheckAccountResponse> getCheckAccountMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "CheckAccount",
      requestType = dev.fencepost.signer.v1.CheckAccountRequest.class,
      responseType = dev.fencepost.signer.v1.CheckAccountResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.fencepost.signer.v1.CheckAccountRequest,
      dev.fencepost.signer.v1.CheckAccountResponse> getCheckAccountMethod() {
    io.grpc.MethodDescriptor<dev.fencepost.signer.v1.CheckAccountRequest, dev.fencepost.signer.v1.CheckAccountResponse> getCheckAccountMethod;
    if ((getCheckAccountMethod = SignerServiceGrpc.getCheckAccountMethod) == null) {
      synchronized (SignerServiceGrpc.class) {
        if ((getCheckAccountMethod = SignerServiceGrpc.getCheckAccountMethod) == null) {
          SignerServiceGrpc.getCheckAccountMethod = getCheckAccountMethod =
              io.grpc.MethodDescriptor.<dev.fencepost.signer.v1.CheckAccountRequest, dev.fencepost.signer.v1.CheckAccountResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "CheckAccount"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.fencepost.signer.v1.CheckAccountRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.fencepost.signer.v1.CheckAccountResponse.getDefaultInstance()))
              .setSchemaDescriptor(new SignerServiceMethodDescriptorSupplier("CheckAccount"))
              .build();
        }
      }
    }
    return getCheckAccountMethod;
  }

  /**
   * Creates a new async stub that supports all call types for the service
   */
  public static SignerServiceStub newStub(io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<SignerServiceStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<SignerServiceStub>() {
        @java.lang.Override
        public SignerServiceStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new SignerServiceStub(channel, callOptions);
        }
      };
    return SignerServiceStub.newStub(factory, channel);
  }

  /**
   * Creates a new blocking-style stub that supports all types of calls on the service
   */
  public static SignerServiceBlockingV2Stub newBlockingV2Stub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<SignerServiceBlockingV2Stub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<SignerServiceBlockingV2Stub>() {
        @java.lang.Override
        public SignerServiceBlockingV2Stub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new SignerServiceBlockingV2Stub(channel, callOptions);
        }
      };
    return SignerServiceBlockingV2Stub.newStub(factory, channel);
  }

  /**
   * Creates a new blocking-style stub that supports unary and streaming output calls on the service
   */
  public static SignerServiceBlockingStub newBlockingStub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<SignerServiceBlockingStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<SignerServiceBlockingStub>() {
        @java.lang.Override
        public SignerServiceBlockingStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new SignerServiceBlockingStub(channel, callOptions);
        }
      };
    return SignerServiceBlockingStub.newStub(factory, channel);
  }

  /**
   * Creates a new ListenableFuture-style stub that supports unary calls on the service
   */
  public static SignerServiceFutureStub newFutureStub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<SignerServiceFutureStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<SignerServiceFutureStub>() {
        @java.lang.Override
        public SignerServiceFutureStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new SignerServiceFutureStub(channel, callOptions);
        }
      };
    return SignerServiceFutureStub.newStub(factory, channel);
  }

  /**
   * <pre>
   * SignerService is implemented by a signer of your own, and called by Fencepost's nodes. The signer
   * holds the keys and may apply a policy; examples/signer is a small one.
   * A node decodes each result and compares it with its request, so a faulty signer cannot send
   * another transaction. An error delays the transaction, with one exception: NOT_FOUND means that
   * the signer has no key for the account, and fails a transaction that was never signed. Messages of
   * errors are logged by the node; they must contain no secret.
   * </pre>
   */
  public interface AsyncService {

    /**
     * <pre>
     * SignTransaction signs one transaction. A node may repeat a request, also with other fees or
     * another nonce, and discards results that arrive after its timeout. So a signer that counts
     * amounts counts each nonce of an account once.
     * </pre>
     */
    default void signTransaction(dev.fencepost.signer.v1.SignTransactionRequest request,
        io.grpc.stub.StreamObserver<dev.fencepost.signer.v1.SignTransactionResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getSignTransactionMethod(), responseObserver);
    }

    /**
     * <pre>
     * CheckAccount reports whether the signer has the key of an account; NOT_FOUND: it has not. Nodes
     * call it when they start and for "fencepost config check".
     * </pre>
     */
    default void checkAccount(dev.fencepost.signer.v1.CheckAccountRequest request,
        io.grpc.stub.StreamObserver<dev.fencepost.signer.v1.CheckAccountResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getCheckAccountMethod(), responseObserver);
    }
  }

  /**
   * Base class for the server implementation of the service SignerService.
   * <pre>
   * SignerService is implemented by a signer of your own, and called by Fencepost's nodes. The signer
   * holds the keys and may apply a policy; examples/signer is a small one.
   * A node decodes each result and compares it with its request, so a faulty signer cannot send
   * another transaction. An error delays the transaction, with one exception: NOT_FOUND means that
   * the signer has no key for the account, and fails a transaction that was never signed. Messages of
   * errors are logged by the node; they must contain no secret.
   * </pre>
   */
  public static abstract class SignerServiceImplBase
      implements io.grpc.BindableService, AsyncService {

    @java.lang.Override public final io.grpc.ServerServiceDefinition bindService() {
      return SignerServiceGrpc.bindService(this);
    }
  }

  /**
   * A stub to allow clients to do asynchronous rpc calls to service SignerService.
   * <pre>
   * SignerService is implemented by a signer of your own, and called by Fencepost's nodes. The signer
   * holds the keys and may apply a policy; examples/signer is a small one.
   * A node decodes each result and compares it with its request, so a faulty signer cannot send
   * another transaction. An error delays the transaction, with one exception: NOT_FOUND means that
   * the signer has no key for the account, and fails a transaction that was never signed. Messages of
   * errors are logged by the node; they must contain no secret.
   * </pre>
   */
  public static final class SignerServiceStub
      extends io.grpc.stub.AbstractAsyncStub<SignerServiceStub> {
    private SignerServiceStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected SignerServiceStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new SignerServiceStub(channel, callOptions);
    }

    /**
     * <pre>
     * SignTransaction signs one transaction. A node may repeat a request, also with other fees or
     * another nonce, and discards results that arrive after its timeout. So a signer that counts
     * amounts counts each nonce of an account once.
     * </pre>
     */
    public void signTransaction(dev.fencepost.signer.v1.SignTransactionRequest request,
        io.grpc.stub.StreamObserver<dev.fencepost.signer.v1.SignTransactionResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getSignTransactionMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * CheckAccount reports whether the signer has the key of an account; NOT_FOUND: it has not. Nodes
     * call it when they start and for "fencepost config check".
     * </pre>
     */
    public void checkAccount(dev.fencepost.signer.v1.CheckAccountRequest request,
        io.grpc.stub.StreamObserver<dev.fencepost.signer.v1.CheckAccountResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getCheckAccountMethod(), getCallOptions()), request, responseObserver);
    }
  }

  /**
   * A stub to allow clients to do synchronous rpc calls to service SignerService.
   * <pre>
   * SignerService is implemented by a signer of your own, and called by Fencepost's nodes. The signer
   * holds the keys and may apply a policy; examples/signer is a small one.
   * A node decodes each result and compares it with its request, so a faulty signer cannot send
   * another transaction. An error delays the transaction, with one exception: NOT_FOUND means that
   * the signer has no key for the account, and fails a transaction that was never signed. Messages of
   * errors are logged by the node; they must contain no secret.
   * </pre>
   */
  public static final class SignerServiceBlockingV2Stub
      extends io.grpc.stub.AbstractBlockingStub<SignerServiceBlockingV2Stub> {
    private SignerServiceBlockingV2Stub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected SignerServiceBlockingV2Stub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new SignerServiceBlockingV2Stub(channel, callOptions);
    }

    /**
     * <pre>
     * SignTransaction signs one transaction. A node may repeat a request, also with other fees or
     * another nonce, and discards results that arrive after its timeout. So a signer that counts
     * amounts counts each nonce of an account once.
     * </pre>
     */
    public dev.fencepost.signer.v1.SignTransactionResponse signTransaction(dev.fencepost.signer.v1.SignTransactionRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getSignTransactionMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * CheckAccount reports whether the signer has the key of an account; NOT_FOUND: it has not. Nodes
     * call it when they start and for "fencepost config check".
     * </pre>
     */
    public dev.fencepost.signer.v1.CheckAccountResponse checkAccount(dev.fencepost.signer.v1.CheckAccountRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getCheckAccountMethod(), getCallOptions(), request);
    }
  }

  /**
   * A stub to allow clients to do limited synchronous rpc calls to service SignerService.
   * <pre>
   * SignerService is implemented by a signer of your own, and called by Fencepost's nodes. The signer
   * holds the keys and may apply a policy; examples/signer is a small one.
   * A node decodes each result and compares it with its request, so a faulty signer cannot send
   * another transaction. An error delays the transaction, with one exception: NOT_FOUND means that
   * the signer has no key for the account, and fails a transaction that was never signed. Messages of
   * errors are logged by the node; they must contain no secret.
   * </pre>
   */
  public static final class SignerServiceBlockingStub
      extends io.grpc.stub.AbstractBlockingStub<SignerServiceBlockingStub> {
    private SignerServiceBlockingStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected SignerServiceBlockingStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new SignerServiceBlockingStub(channel, callOptions);
    }

    /**
     * <pre>
     * SignTransaction signs one transaction. A node may repeat a request, also with other fees or
     * another nonce, and discards results that arrive after its timeout. So a signer that counts
     * amounts counts each nonce of an account once.
     * </pre>
     */
    public dev.fencepost.signer.v1.SignTransactionResponse signTransaction(dev.fencepost.signer.v1.SignTransactionRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getSignTransactionMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * CheckAccount reports whether the signer has the key of an account; NOT_FOUND: it has not. Nodes
     * call it when they start and for "fencepost config check".
     * </pre>
     */
    public dev.fencepost.signer.v1.CheckAccountResponse checkAccount(dev.fencepost.signer.v1.CheckAccountRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getCheckAccountMethod(), getCallOptions(), request);
    }
  }

  /**
   * A stub to allow clients to do ListenableFuture-style rpc calls to service SignerService.
   * <pre>
   * SignerService is implemented by a signer of your own, and called by Fencepost's nodes. The signer
   * holds the keys and may apply a policy; examples/signer is a small one.
   * A node decodes each result and compares it with its request, so a faulty signer cannot send
   * another transaction. An error delays the transaction, with one exception: NOT_FOUND means that
   * the signer has no key for the account, and fails a transaction that was never signed. Messages of
   * errors are logged by the node; they must contain no secret.
   * </pre>
   */
  public static final class SignerServiceFutureStub
      extends io.grpc.stub.AbstractFutureStub<SignerServiceFutureStub> {
    private SignerServiceFutureStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected SignerServiceFutureStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new SignerServiceFutureStub(channel, callOptions);
    }

    /**
     * <pre>
     * SignTransaction signs one transaction. A node may repeat a request, also with other fees or
     * another nonce, and discards results that arrive after its timeout. So a signer that counts
     * amounts counts each nonce of an account once.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.fencepost.signer.v1.SignTransactionResponse> signTransaction(
        dev.fencepost.signer.v1.SignTransactionRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getSignTransactionMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * CheckAccount reports whether the signer has the key of an account; NOT_FOUND: it has not. Nodes
     * call it when they start and for "fencepost config check".
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.fencepost.signer.v1.CheckAccountResponse> checkAccount(
        dev.fencepost.signer.v1.CheckAccountRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getCheckAccountMethod(), getCallOptions()), request);
    }
  }

  private static final int METHODID_SIGN_TRANSACTION = 0;
  private static final int METHODID_CHECK_ACCOUNT = 1;

  private static final class MethodHandlers<Req, Resp> implements
      io.grpc.stub.ServerCalls.UnaryMethod<Req, Resp>,
      io.grpc.stub.ServerCalls.ServerStreamingMethod<Req, Resp>,
      io.grpc.stub.ServerCalls.ClientStreamingMethod<Req, Resp>,
      io.grpc.stub.ServerCalls.BidiStreamingMethod<Req, Resp> {
    private final AsyncService serviceImpl;
    private final int methodId;

    MethodHandlers(AsyncService serviceImpl, int methodId) {
      this.serviceImpl = serviceImpl;
      this.methodId = methodId;
    }

    @java.lang.Override
    @java.lang.SuppressWarnings("unchecked")
    public void invoke(Req request, io.grpc.stub.StreamObserver<Resp> responseObserver) {
      switch (methodId) {
        case METHODID_SIGN_TRANSACTION:
          serviceImpl.signTransaction((dev.fencepost.signer.v1.SignTransactionRequest) request,
              (io.grpc.stub.StreamObserver<dev.fencepost.signer.v1.SignTransactionResponse>) responseObserver);
          break;
        case METHODID_CHECK_ACCOUNT:
          serviceImpl.checkAccount((dev.fencepost.signer.v1.CheckAccountRequest) request,
              (io.grpc.stub.StreamObserver<dev.fencepost.signer.v1.CheckAccountResponse>) responseObserver);
          break;
        default:
          throw new AssertionError();
      }
    }

    @java.lang.Override
    @java.lang.SuppressWarnings("unchecked")
    public io.grpc.stub.StreamObserver<Req> invoke(
        io.grpc.stub.StreamObserver<Resp> responseObserver) {
      switch (methodId) {
        default:
          throw new AssertionError();
      }
    }
  }

  public static final io.grpc.ServerServiceDefinition bindService(AsyncService service) {
    return io.grpc.ServerServiceDefinition.builder(getServiceDescriptor())
        .addMethod(
          getSignTransactionMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.fencepost.signer.v1.SignTransactionRequest,
              dev.fencepost.signer.v1.SignTransactionResponse>(
                service, METHODID_SIGN_TRANSACTION)))
        .addMethod(
          getCheckAccountMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.fencepost.signer.v1.CheckAccountRequest,
              dev.fencepost.signer.v1.CheckAccountResponse>(
                service, METHODID_CHECK_ACCOUNT)))
        .build();
  }

  private static abstract class SignerServiceBaseDescriptorSupplier
      implements io.grpc.protobuf.ProtoFileDescriptorSupplier, io.grpc.protobuf.ProtoServiceDescriptorSupplier {
    SignerServiceBaseDescriptorSupplier() {}

    @java.lang.Override
    public com.google.protobuf.Descriptors.FileDescriptor getFileDescriptor() {
      return dev.fencepost.signer.v1.Signer.getDescriptor();
    }

    @java.lang.Override
    public com.google.protobuf.Descriptors.ServiceDescriptor getServiceDescriptor() {
      return getFileDescriptor().findServiceByName("SignerService");
    }
  }

  private static final class SignerServiceFileDescriptorSupplier
      extends SignerServiceBaseDescriptorSupplier {
    SignerServiceFileDescriptorSupplier() {}
  }

  private static final class SignerServiceMethodDescriptorSupplier
      extends SignerServiceBaseDescriptorSupplier
      implements io.grpc.protobuf.ProtoMethodDescriptorSupplier {
    private final java.lang.String methodName;

    SignerServiceMethodDescriptorSupplier(java.lang.String methodName) {
      this.methodName = methodName;
    }

    @java.lang.Override
    public com.google.protobuf.Descriptors.MethodDescriptor getMethodDescriptor() {
      return getServiceDescriptor().findMethodByName(methodName);
    }
  }

  private static volatile io.grpc.ServiceDescriptor serviceDescriptor;

  public static io.grpc.ServiceDescriptor getServiceDescriptor() {
    io.grpc.ServiceDescriptor result = serviceDescriptor;
    if (result == null) {
      synchronized (SignerServiceGrpc.class) {
        result = serviceDescriptor;
        if (result == null) {
          serviceDescriptor = result = io.grpc.ServiceDescriptor.newBuilder(SERVICE_NAME)
              .setSchemaDescriptor(new SignerServiceFileDescriptorSupplier())
              .addMethod(getSignTransactionMethod())
              .addMethod(getCheckAccountMethod())
              .build();
        }
      }
    }
    return result;
  }
}
