package dev.fencepost.v1;

import static io.grpc.MethodDescriptor.generateFullMethodName;

/**
 * <pre>
 * StatusService reports the state of the nodes and their chains. It changes nothing.
 * </pre>
 */
@io.grpc.stub.annotations.GrpcGenerated
public final class StatusServiceGrpc {

  private StatusServiceGrpc() {}

  public static final java.lang.String SERVICE_NAME = "fencepost.v1.StatusService";

  // Static method descriptors that strictly reflect the proto.
  private static volatile io.grpc.MethodDescriptor<dev.fencepost.v1.GetStatusRequest,
      dev.fencepost.v1.GetStatusResponse> getGetStatusMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "GetStatus",
      requestType = dev.fencepost.v1.GetStatusRequest.class,
      responseType = dev.fencepost.v1.GetStatusResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.fencepost.v1.GetStatusRequest,
      dev.fencepost.v1.GetStatusResponse> getGetStatusMethod() {
    io.grpc.MethodDescriptor<dev.fencepost.v1.GetStatusRequest, dev.fencepost.v1.GetStatusResponse> getGetStatusMethod;
    if ((getGetStatusMethod = StatusServiceGrpc.getGetStatusMethod) == null) {
      synchronized (StatusServiceGrpc.class) {
        if ((getGetStatusMethod = StatusServiceGrpc.getGetStatusMethod) == null) {
          StatusServiceGrpc.getGetStatusMethod = getGetStatusMethod =
              io.grpc.MethodDescriptor.<dev.fencepost.v1.GetStatusRequest, dev.fencepost.v1.GetStatusResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "GetStatus"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.fencepost.v1.GetStatusRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.fencepost.v1.GetStatusResponse.getDefaultInstance()))
              .setSchemaDescriptor(new StatusServiceMethodDescriptorSupplier("GetStatus"))
              .build();
        }
      }
    }
    return getGetStatusMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.fencepost.v1.ListNodesRequest,
      dev.fencepost.v1.ListNodesResponse> getListNodesMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "ListNodes",
      requestType = dev.fencepost.v1.ListNodesRequest.class,
      responseType = dev.fencepost.v1.ListNodesResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.fencepost.v1.ListNodesRequest,
      dev.fencepost.v1.ListNodesResponse> getListNodesMethod() {
    io.grpc.MethodDescriptor<dev.fencepost.v1.ListNodesRequest, dev.fencepost.v1.ListNodesResponse> getListNodesMethod;
    if ((getListNodesMethod = StatusServiceGrpc.getListNodesMethod) == null) {
      synchronized (StatusServiceGrpc.class) {
        if ((getListNodesMethod = StatusServiceGrpc.getListNodesMethod) == null) {
          StatusServiceGrpc.getListNodesMethod = getListNodesMethod =
              io.grpc.MethodDescriptor.<dev.fencepost.v1.ListNodesRequest, dev.fencepost.v1.ListNodesResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "ListNodes"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.fencepost.v1.ListNodesRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.fencepost.v1.ListNodesResponse.getDefaultInstance()))
              .setSchemaDescriptor(new StatusServiceMethodDescriptorSupplier("ListNodes"))
              .build();
        }
      }
    }
    return getListNodesMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.fencepost.v1.ListChainsRequest,
      dev.fencepost.v1.ListChainsResponse> getListChainsMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "ListChains",
      requestType = dev.fencepost.v1.ListChainsRequest.class,
      responseType = dev.fencepost.v1.ListChainsResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.fencepost.v1.ListChainsRequest,
      dev.fencepost.v1.ListChainsResponse> getListChainsMethod() {
    io.grpc.MethodDescriptor<dev.fencepost.v1.ListChainsRequest, dev.fencepost.v1.ListChainsResponse> getListChainsMethod;
    if ((getListChainsMethod = StatusServiceGrpc.getListChainsMethod) == null) {
      synchronized (StatusServiceGrpc.class) {
        if ((getListChainsMethod = StatusServiceGrpc.getListChainsMethod) == null) {
          StatusServiceGrpc.getListChainsMethod = getListChainsMethod =
              io.grpc.MethodDescriptor.<dev.fencepost.v1.ListChainsRequest, dev.fencepost.v1.ListChainsResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "ListChains"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.fencepost.v1.ListChainsRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.fencepost.v1.ListChainsResponse.getDefaultInstance()))
              .setSchemaDescriptor(new StatusServiceMethodDescriptorSupplier("ListChains"))
              .build();
        }
      }
    }
    return getListChainsMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.fencepost.v1.ListBalancesRequest,
      dev.fencepost.v1.ListBalancesResponse> getListBalancesMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "ListBalances",
      requestType = dev.fencepost.v1.ListBalancesRequest.class,
      responseType = dev.fencepost.v1.ListBalancesResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.fencepost.v1.ListBalancesRequest,
      dev.fencepost.v1.ListBalancesResponse> getListBalancesMethod() {
    io.grpc.MethodDescriptor<dev.fencepost.v1.ListBalancesRequest, dev.fencepost.v1.ListBalancesResponse> getListBalancesMethod;
    if ((getListBalancesMethod = StatusServiceGrpc.getListBalancesMethod) == null) {
      synchronized (StatusServiceGrpc.class) {
        if ((getListBalancesMethod = StatusServiceGrpc.getListBalancesMethod) == null) {
          StatusServiceGrpc.getListBalancesMethod = getListBalancesMethod =
              io.grpc.MethodDescriptor.<dev.fencepost.v1.ListBalancesRequest, dev.fencepost.v1.ListBalancesResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "ListBalances"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.fencepost.v1.ListBalancesRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.fencepost.v1.ListBalancesResponse.getDefaultInstance()))
              .setSchemaDescriptor(new StatusServiceMethodDescriptorSupplier("ListBalances"))
              .build();
        }
      }
    }
    return getListBalancesMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.fencepost.v1.ListCostsRequest,
      dev.fencepost.v1.ListCostsResponse> getListCostsMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "ListCosts",
      requestType = dev.fencepost.v1.ListCostsRequest.class,
      responseType = dev.fencepost.v1.ListCostsResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.fencepost.v1.ListCostsRequest,
      dev.fencepost.v1.ListCostsResponse> getListCostsMethod() {
    io.grpc.MethodDescriptor<dev.fencepost.v1.ListCostsRequest, dev.fencepost.v1.ListCostsResponse> getListCostsMethod;
    if ((getListCostsMethod = StatusServiceGrpc.getListCostsMethod) == null) {
      synchronized (StatusServiceGrpc.class) {
        if ((getListCostsMethod = StatusServiceGrpc.getListCostsMethod) == null) {
          StatusServiceGrpc.getListCostsMethod = getListCostsMethod =
              io.grpc.MethodDescriptor.<dev.fencepost.v1.ListCostsRequest, dev.fencepost.v1.ListCostsResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "ListCosts"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.fencepost.v1.ListCostsRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.fencepost.v1.ListCostsResponse.getDefaultInstance()))
              .setSchemaDescriptor(new StatusServiceMethodDescriptorSupplier("ListCosts"))
              .build();
        }
      }
    }
    return getListCostsMethod;
  }

  /**
   * Creates a new async stub that supports all call types for the service
   */
  public static StatusServiceStub newStub(io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<StatusServiceStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<StatusServiceStub>() {
        @java.lang.Override
        public StatusServiceStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new StatusServiceStub(channel, callOptions);
        }
      };
    return StatusServiceStub.newStub(factory, channel);
  }

  /**
   * Creates a new blocking-style stub that supports all types of calls on the service
   */
  public static StatusServiceBlockingV2Stub newBlockingV2Stub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<StatusServiceBlockingV2Stub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<StatusServiceBlockingV2Stub>() {
        @java.lang.Override
        public StatusServiceBlockingV2Stub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new StatusServiceBlockingV2Stub(channel, callOptions);
        }
      };
    return StatusServiceBlockingV2Stub.newStub(factory, channel);
  }

  /**
   * Creates a new blocking-style stub that supports unary and streaming output calls on the service
   */
  public static StatusServiceBlockingStub newBlockingStub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<StatusServiceBlockingStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<StatusServiceBlockingStub>() {
        @java.lang.Override
        public StatusServiceBlockingStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new StatusServiceBlockingStub(channel, callOptions);
        }
      };
    return StatusServiceBlockingStub.newStub(factory, channel);
  }

  /**
   * Creates a new ListenableFuture-style stub that supports unary calls on the service
   */
  public static StatusServiceFutureStub newFutureStub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<StatusServiceFutureStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<StatusServiceFutureStub>() {
        @java.lang.Override
        public StatusServiceFutureStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new StatusServiceFutureStub(channel, callOptions);
        }
      };
    return StatusServiceFutureStub.newStub(factory, channel);
  }

  /**
   * <pre>
   * StatusService reports the state of the nodes and their chains. It changes nothing.
   * </pre>
   */
  public interface AsyncService {

    /**
     * <pre>
     * GetStatus returns the rights of the caller, and counts the submitters to which it has a right,
     * with their transactions.
     * </pre>
     */
    default void getStatus(dev.fencepost.v1.GetStatusRequest request,
        io.grpc.stub.StreamObserver<dev.fencepost.v1.GetStatusResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getGetStatusMethod(), responseObserver);
    }

    /**
     * <pre>
     * ListNodes returns the live nodes, by id, at most 1000. It is for operators.
     * </pre>
     */
    default void listNodes(dev.fencepost.v1.ListNodesRequest request,
        io.grpc.stub.StreamObserver<dev.fencepost.v1.ListNodesResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getListNodesMethod(), responseObserver);
    }

    /**
     * <pre>
     * ListChains returns the configured chains of the node that serves the call, in their order, and
     * the state of their RPC endpoints as this node sees it. It is for operators. Addresses of
     * endpoints are secrets; they have numbers instead.
     * </pre>
     */
    default void listChains(dev.fencepost.v1.ListChainsRequest request,
        io.grpc.stub.StreamObserver<dev.fencepost.v1.ListChainsResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getListChainsMethod(), responseObserver);
    }

    /**
     * <pre>
     * ListBalances reads the balances of submitters at the newest block, from the RPC endpoints of
     * the node that serves the call, and the funds that their transactions need. It is for operators.
     * </pre>
     */
    default void listBalances(dev.fencepost.v1.ListBalancesRequest request,
        io.grpc.stub.StreamObserver<dev.fencepost.v1.ListBalancesResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getListBalancesMethod(), responseObserver);
    }

    /**
     * <pre>
     * ListCosts adds up the gas paid by the final transactions of the caller's submitters, by chain
     * and account, caller, label or day. A replacement or cancel transaction counts for the
     * transaction whose nonce it used. It reads every transaction of the ledger. It is for operators.
     * </pre>
     */
    default void listCosts(dev.fencepost.v1.ListCostsRequest request,
        io.grpc.stub.StreamObserver<dev.fencepost.v1.ListCostsResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getListCostsMethod(), responseObserver);
    }
  }

  /**
   * Base class for the server implementation of the service StatusService.
   * <pre>
   * StatusService reports the state of the nodes and their chains. It changes nothing.
   * </pre>
   */
  public static abstract class StatusServiceImplBase
      implements io.grpc.BindableService, AsyncService {

    @java.lang.Override public final io.grpc.ServerServiceDefinition bindService() {
      return StatusServiceGrpc.bindService(this);
    }
  }

  /**
   * A stub to allow clients to do asynchronous rpc calls to service StatusService.
   * <pre>
   * StatusService reports the state of the nodes and their chains. It changes nothing.
   * </pre>
   */
  public static final class StatusServiceStub
      extends io.grpc.stub.AbstractAsyncStub<StatusServiceStub> {
    private StatusServiceStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected StatusServiceStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new StatusServiceStub(channel, callOptions);
    }

    /**
     * <pre>
     * GetStatus returns the rights of the caller, and counts the submitters to which it has a right,
     * with their transactions.
     * </pre>
     */
    public void getStatus(dev.fencepost.v1.GetStatusRequest request,
        io.grpc.stub.StreamObserver<dev.fencepost.v1.GetStatusResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getGetStatusMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * ListNodes returns the live nodes, by id, at most 1000. It is for operators.
     * </pre>
     */
    public void listNodes(dev.fencepost.v1.ListNodesRequest request,
        io.grpc.stub.StreamObserver<dev.fencepost.v1.ListNodesResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getListNodesMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * ListChains returns the configured chains of the node that serves the call, in their order, and
     * the state of their RPC endpoints as this node sees it. It is for operators. Addresses of
     * endpoints are secrets; they have numbers instead.
     * </pre>
     */
    public void listChains(dev.fencepost.v1.ListChainsRequest request,
        io.grpc.stub.StreamObserver<dev.fencepost.v1.ListChainsResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getListChainsMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * ListBalances reads the balances of submitters at the newest block, from the RPC endpoints of
     * the node that serves the call, and the funds that their transactions need. It is for operators.
     * </pre>
     */
    public void listBalances(dev.fencepost.v1.ListBalancesRequest request,
        io.grpc.stub.StreamObserver<dev.fencepost.v1.ListBalancesResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getListBalancesMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * ListCosts adds up the gas paid by the final transactions of the caller's submitters, by chain
     * and account, caller, label or day. A replacement or cancel transaction counts for the
     * transaction whose nonce it used. It reads every transaction of the ledger. It is for operators.
     * </pre>
     */
    public void listCosts(dev.fencepost.v1.ListCostsRequest request,
        io.grpc.stub.StreamObserver<dev.fencepost.v1.ListCostsResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getListCostsMethod(), getCallOptions()), request, responseObserver);
    }
  }

  /**
   * A stub to allow clients to do synchronous rpc calls to service StatusService.
   * <pre>
   * StatusService reports the state of the nodes and their chains. It changes nothing.
   * </pre>
   */
  public static final class StatusServiceBlockingV2Stub
      extends io.grpc.stub.AbstractBlockingStub<StatusServiceBlockingV2Stub> {
    private StatusServiceBlockingV2Stub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected StatusServiceBlockingV2Stub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new StatusServiceBlockingV2Stub(channel, callOptions);
    }

    /**
     * <pre>
     * GetStatus returns the rights of the caller, and counts the submitters to which it has a right,
     * with their transactions.
     * </pre>
     */
    public dev.fencepost.v1.GetStatusResponse getStatus(dev.fencepost.v1.GetStatusRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getGetStatusMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * ListNodes returns the live nodes, by id, at most 1000. It is for operators.
     * </pre>
     */
    public dev.fencepost.v1.ListNodesResponse listNodes(dev.fencepost.v1.ListNodesRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getListNodesMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * ListChains returns the configured chains of the node that serves the call, in their order, and
     * the state of their RPC endpoints as this node sees it. It is for operators. Addresses of
     * endpoints are secrets; they have numbers instead.
     * </pre>
     */
    public dev.fencepost.v1.ListChainsResponse listChains(dev.fencepost.v1.ListChainsRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getListChainsMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * ListBalances reads the balances of submitters at the newest block, from the RPC endpoints of
     * the node that serves the call, and the funds that their transactions need. It is for operators.
     * </pre>
     */
    public dev.fencepost.v1.ListBalancesResponse listBalances(dev.fencepost.v1.ListBalancesRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getListBalancesMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * ListCosts adds up the gas paid by the final transactions of the caller's submitters, by chain
     * and account, caller, label or day. A replacement or cancel transaction counts for the
     * transaction whose nonce it used. It reads every transaction of the ledger. It is for operators.
     * </pre>
     */
    public dev.fencepost.v1.ListCostsResponse listCosts(dev.fencepost.v1.ListCostsRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getListCostsMethod(), getCallOptions(), request);
    }
  }

  /**
   * A stub to allow clients to do limited synchronous rpc calls to service StatusService.
   * <pre>
   * StatusService reports the state of the nodes and their chains. It changes nothing.
   * </pre>
   */
  public static final class StatusServiceBlockingStub
      extends io.grpc.stub.AbstractBlockingStub<StatusServiceBlockingStub> {
    private StatusServiceBlockingStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected StatusServiceBlockingStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new StatusServiceBlockingStub(channel, callOptions);
    }

    /**
     * <pre>
     * GetStatus returns the rights of the caller, and counts the submitters to which it has a right,
     * with their transactions.
     * </pre>
     */
    public dev.fencepost.v1.GetStatusResponse getStatus(dev.fencepost.v1.GetStatusRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getGetStatusMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * ListNodes returns the live nodes, by id, at most 1000. It is for operators.
     * </pre>
     */
    public dev.fencepost.v1.ListNodesResponse listNodes(dev.fencepost.v1.ListNodesRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getListNodesMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * ListChains returns the configured chains of the node that serves the call, in their order, and
     * the state of their RPC endpoints as this node sees it. It is for operators. Addresses of
     * endpoints are secrets; they have numbers instead.
     * </pre>
     */
    public dev.fencepost.v1.ListChainsResponse listChains(dev.fencepost.v1.ListChainsRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getListChainsMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * ListBalances reads the balances of submitters at the newest block, from the RPC endpoints of
     * the node that serves the call, and the funds that their transactions need. It is for operators.
     * </pre>
     */
    public dev.fencepost.v1.ListBalancesResponse listBalances(dev.fencepost.v1.ListBalancesRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getListBalancesMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * ListCosts adds up the gas paid by the final transactions of the caller's submitters, by chain
     * and account, caller, label or day. A replacement or cancel transaction counts for the
     * transaction whose nonce it used. It reads every transaction of the ledger. It is for operators.
     * </pre>
     */
    public dev.fencepost.v1.ListCostsResponse listCosts(dev.fencepost.v1.ListCostsRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getListCostsMethod(), getCallOptions(), request);
    }
  }

  /**
   * A stub to allow clients to do ListenableFuture-style rpc calls to service StatusService.
   * <pre>
   * StatusService reports the state of the nodes and their chains. It changes nothing.
   * </pre>
   */
  public static final class StatusServiceFutureStub
      extends io.grpc.stub.AbstractFutureStub<StatusServiceFutureStub> {
    private StatusServiceFutureStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected StatusServiceFutureStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new StatusServiceFutureStub(channel, callOptions);
    }

    /**
     * <pre>
     * GetStatus returns the rights of the caller, and counts the submitters to which it has a right,
     * with their transactions.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.fencepost.v1.GetStatusResponse> getStatus(
        dev.fencepost.v1.GetStatusRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getGetStatusMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * ListNodes returns the live nodes, by id, at most 1000. It is for operators.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.fencepost.v1.ListNodesResponse> listNodes(
        dev.fencepost.v1.ListNodesRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getListNodesMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * ListChains returns the configured chains of the node that serves the call, in their order, and
     * the state of their RPC endpoints as this node sees it. It is for operators. Addresses of
     * endpoints are secrets; they have numbers instead.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.fencepost.v1.ListChainsResponse> listChains(
        dev.fencepost.v1.ListChainsRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getListChainsMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * ListBalances reads the balances of submitters at the newest block, from the RPC endpoints of
     * the node that serves the call, and the funds that their transactions need. It is for operators.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.fencepost.v1.ListBalancesResponse> listBalances(
        dev.fencepost.v1.ListBalancesRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getListBalancesMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * ListCosts adds up the gas paid by the final transactions of the caller's submitters, by chain
     * and account, caller, label or day. A replacement or cancel transaction counts for the
     * transaction whose nonce it used. It reads every transaction of the ledger. It is for operators.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.fencepost.v1.ListCostsResponse> listCosts(
        dev.fencepost.v1.ListCostsRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getListCostsMethod(), getCallOptions()), request);
    }
  }

  private static final int METHODID_GET_STATUS = 0;
  private static final int METHODID_LIST_NODES = 1;
  private static final int METHODID_LIST_CHAINS = 2;
  private static final int METHODID_LIST_BALANCES = 3;
  private static final int METHODID_LIST_COSTS = 4;

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
        case METHODID_GET_STATUS:
          serviceImpl.getStatus((dev.fencepost.v1.GetStatusRequest) request,
              (io.grpc.stub.StreamObserver<dev.fencepost.v1.GetStatusResponse>) responseObserver);
          break;
        case METHODID_LIST_NODES:
          serviceImpl.listNodes((dev.fencepost.v1.ListNodesRequest) request,
              (io.grpc.stub.StreamObserver<dev.fencepost.v1.ListNodesResponse>) responseObserver);
          break;
        case METHODID_LIST_CHAINS:
          serviceImpl.listChains((dev.fencepost.v1.ListChainsRequest) request,
              (io.grpc.stub.StreamObserver<dev.fencepost.v1.ListChainsResponse>) responseObserver);
          break;
        case METHODID_LIST_BALANCES:
          serviceImpl.listBalances((dev.fencepost.v1.ListBalancesRequest) request,
              (io.grpc.stub.StreamObserver<dev.fencepost.v1.ListBalancesResponse>) responseObserver);
          break;
        case METHODID_LIST_COSTS:
          serviceImpl.listCosts((dev.fencepost.v1.ListCostsRequest) request,
              (io.grpc.stub.StreamObserver<dev.fencepost.v1.ListCostsResponse>) responseObserver);
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
          getGetStatusMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.fencepost.v1.GetStatusRequest,
              dev.fencepost.v1.GetStatusResponse>(
                service, METHODID_GET_STATUS)))
        .addMethod(
          getListNodesMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.fencepost.v1.ListNodesRequest,
              dev.fencepost.v1.ListNodesResponse>(
                service, METHODID_LIST_NODES)))
        .addMethod(
          getListChainsMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.fencepost.v1.ListChainsRequest,
              dev.fencepost.v1.ListChainsResponse>(
                service, METHODID_LIST_CHAINS)))
        .addMethod(
          getListBalancesMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.fencepost.v1.ListBalancesRequest,
              dev.fencepost.v1.ListBalancesResponse>(
                service, METHODID_LIST_BALANCES)))
        .addMethod(
          getListCostsMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.fencepost.v1.ListCostsRequest,
              dev.fencepost.v1.ListCostsResponse>(
                service, METHODID_LIST_COSTS)))
        .build();
  }

  private static abstract class StatusServiceBaseDescriptorSupplier
      implements io.grpc.protobuf.ProtoFileDescriptorSupplier, io.grpc.protobuf.ProtoServiceDescriptorSupplier {
    StatusServiceBaseDescriptorSupplier() {}

    @java.lang.Override
    public com.google.protobuf.Descriptors.FileDescriptor getFileDescriptor() {
      return dev.fencepost.v1.StatusOuterClass.getDescriptor();
    }

    @java.lang.Override
    public com.google.protobuf.Descriptors.ServiceDescriptor getServiceDescriptor() {
      return getFileDescriptor().findServiceByName("StatusService");
    }
  }

  private static final class StatusServiceFileDescriptorSupplier
      extends StatusServiceBaseDescriptorSupplier {
    StatusServiceFileDescriptorSupplier() {}
  }

  private static final class StatusServiceMethodDescriptorSupplier
      extends StatusServiceBaseDescriptorSupplier
      implements io.grpc.protobuf.ProtoMethodDescriptorSupplier {
    private final java.lang.String methodName;

    StatusServiceMethodDescriptorSupplier(java.lang.String methodName) {
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
      synchronized (StatusServiceGrpc.class) {
        result = serviceDescriptor;
        if (result == null) {
          serviceDescriptor = result = io.grpc.ServiceDescriptor.newBuilder(SERVICE_NAME)
              .setSchemaDescriptor(new StatusServiceFileDescriptorSupplier())
              .addMethod(getGetStatusMethod())
              .addMethod(getListNodesMethod())
              .addMethod(getListChainsMethod())
              .addMethod(getListBalancesMethod())
              .addMethod(getListCostsMethod())
              .build();
        }
      }
    }
    return result;
  }
}
