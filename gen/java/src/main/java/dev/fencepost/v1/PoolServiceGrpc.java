package dev.fencepost.v1;

import static io.grpc.MethodDescriptor.generateFullMethodName;

/**
 * <pre>
 * PoolService manages pools: sets of accounts of one chain that share transactions. CreateTx with a
 * pool lets the ledger choose the account. Changes apply at once on all nodes and are recorded with
 * the commands of the account. They are for operators of all submitters.
 * </pre>
 */
@io.grpc.stub.annotations.GrpcGenerated
public final class PoolServiceGrpc {

  private PoolServiceGrpc() {}

  public static final java.lang.String SERVICE_NAME = "fencepost.v1.PoolService";

  // Static method descriptors that strictly reflect the proto.
  private static volatile io.grpc.MethodDescriptor<dev.fencepost.v1.CreatePoolRequest,
      dev.fencepost.v1.CreatePoolResponse> getCreatePoolMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "CreatePool",
      requestType = dev.fencepost.v1.CreatePoolRequest.class,
      responseType = dev.fencepost.v1.CreatePoolResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.fencepost.v1.CreatePoolRequest,
      dev.fencepost.v1.CreatePoolResponse> getCreatePoolMethod() {
    io.grpc.MethodDescriptor<dev.fencepost.v1.CreatePoolRequest, dev.fencepost.v1.CreatePoolResponse> getCreatePoolMethod;
    if ((getCreatePoolMethod = PoolServiceGrpc.getCreatePoolMethod) == null) {
      synchronized (PoolServiceGrpc.class) {
        if ((getCreatePoolMethod = PoolServiceGrpc.getCreatePoolMethod) == null) {
          PoolServiceGrpc.getCreatePoolMethod = getCreatePoolMethod =
              io.grpc.MethodDescriptor.<dev.fencepost.v1.CreatePoolRequest, dev.fencepost.v1.CreatePoolResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "CreatePool"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.fencepost.v1.CreatePoolRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.fencepost.v1.CreatePoolResponse.getDefaultInstance()))
              .setSchemaDescriptor(new PoolServiceMethodDescriptorSupplier("CreatePool"))
              .build();
        }
      }
    }
    return getCreatePoolMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.fencepost.v1.ListPoolsRequest,
      dev.fencepost.v1.ListPoolsResponse> getListPoolsMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "ListPools",
      requestType = dev.fencepost.v1.ListPoolsRequest.class,
      responseType = dev.fencepost.v1.ListPoolsResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.fencepost.v1.ListPoolsRequest,
      dev.fencepost.v1.ListPoolsResponse> getListPoolsMethod() {
    io.grpc.MethodDescriptor<dev.fencepost.v1.ListPoolsRequest, dev.fencepost.v1.ListPoolsResponse> getListPoolsMethod;
    if ((getListPoolsMethod = PoolServiceGrpc.getListPoolsMethod) == null) {
      synchronized (PoolServiceGrpc.class) {
        if ((getListPoolsMethod = PoolServiceGrpc.getListPoolsMethod) == null) {
          PoolServiceGrpc.getListPoolsMethod = getListPoolsMethod =
              io.grpc.MethodDescriptor.<dev.fencepost.v1.ListPoolsRequest, dev.fencepost.v1.ListPoolsResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "ListPools"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.fencepost.v1.ListPoolsRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.fencepost.v1.ListPoolsResponse.getDefaultInstance()))
              .setSchemaDescriptor(new PoolServiceMethodDescriptorSupplier("ListPools"))
              .build();
        }
      }
    }
    return getListPoolsMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.fencepost.v1.GetPoolRequest,
      dev.fencepost.v1.GetPoolResponse> getGetPoolMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "GetPool",
      requestType = dev.fencepost.v1.GetPoolRequest.class,
      responseType = dev.fencepost.v1.GetPoolResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.fencepost.v1.GetPoolRequest,
      dev.fencepost.v1.GetPoolResponse> getGetPoolMethod() {
    io.grpc.MethodDescriptor<dev.fencepost.v1.GetPoolRequest, dev.fencepost.v1.GetPoolResponse> getGetPoolMethod;
    if ((getGetPoolMethod = PoolServiceGrpc.getGetPoolMethod) == null) {
      synchronized (PoolServiceGrpc.class) {
        if ((getGetPoolMethod = PoolServiceGrpc.getGetPoolMethod) == null) {
          PoolServiceGrpc.getGetPoolMethod = getGetPoolMethod =
              io.grpc.MethodDescriptor.<dev.fencepost.v1.GetPoolRequest, dev.fencepost.v1.GetPoolResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "GetPool"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.fencepost.v1.GetPoolRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.fencepost.v1.GetPoolResponse.getDefaultInstance()))
              .setSchemaDescriptor(new PoolServiceMethodDescriptorSupplier("GetPool"))
              .build();
        }
      }
    }
    return getGetPoolMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.fencepost.v1.AddPoolMemberRequest,
      dev.fencepost.v1.AddPoolMemberResponse> getAddPoolMemberMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "AddPoolMember",
      requestType = dev.fencepost.v1.AddPoolMemberRequest.class,
      responseType = dev.fencepost.v1.AddPoolMemberResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.fencepost.v1.AddPoolMemberRequest,
      dev.fencepost.v1.AddPoolMemberResponse> getAddPoolMemberMethod() {
    io.grpc.MethodDescriptor<dev.fencepost.v1.AddPoolMemberRequest, dev.fencepost.v1.AddPoolMemberResponse> getAddPoolMemberMethod;
    if ((getAddPoolMemberMethod = PoolServiceGrpc.getAddPoolMemberMethod) == null) {
      synchronized (PoolServiceGrpc.class) {
        if ((getAddPoolMemberMethod = PoolServiceGrpc.getAddPoolMemberMethod) == null) {
          PoolServiceGrpc.getAddPoolMemberMethod = getAddPoolMemberMethod =
              io.grpc.MethodDescriptor.<dev.fencepost.v1.AddPoolMemberRequest, dev.fencepost.v1.AddPoolMemberResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "AddPoolMember"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.fencepost.v1.AddPoolMemberRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.fencepost.v1.AddPoolMemberResponse.getDefaultInstance()))
              .setSchemaDescriptor(new PoolServiceMethodDescriptorSupplier("AddPoolMember"))
              .build();
        }
      }
    }
    return getAddPoolMemberMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.fencepost.v1.DrainPoolMemberRequest,
      dev.fencepost.v1.DrainPoolMemberResponse> getDrainPoolMemberMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "DrainPoolMember",
      requestType = dev.fencepost.v1.DrainPoolMemberRequest.class,
      responseType = dev.fencepost.v1.DrainPoolMemberResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.fencepost.v1.DrainPoolMemberRequest,
      dev.fencepost.v1.DrainPoolMemberResponse> getDrainPoolMemberMethod() {
    io.grpc.MethodDescriptor<dev.fencepost.v1.DrainPoolMemberRequest, dev.fencepost.v1.DrainPoolMemberResponse> getDrainPoolMemberMethod;
    if ((getDrainPoolMemberMethod = PoolServiceGrpc.getDrainPoolMemberMethod) == null) {
      synchronized (PoolServiceGrpc.class) {
        if ((getDrainPoolMemberMethod = PoolServiceGrpc.getDrainPoolMemberMethod) == null) {
          PoolServiceGrpc.getDrainPoolMemberMethod = getDrainPoolMemberMethod =
              io.grpc.MethodDescriptor.<dev.fencepost.v1.DrainPoolMemberRequest, dev.fencepost.v1.DrainPoolMemberResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "DrainPoolMember"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.fencepost.v1.DrainPoolMemberRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.fencepost.v1.DrainPoolMemberResponse.getDefaultInstance()))
              .setSchemaDescriptor(new PoolServiceMethodDescriptorSupplier("DrainPoolMember"))
              .build();
        }
      }
    }
    return getDrainPoolMemberMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.fencepost.v1.RemovePoolMemberRequest,
      dev.fencepost.v1.RemovePoolMemberResponse> getRemovePoolMemberMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "RemovePoolMember",
      requestType = dev.fencepost.v1.RemovePoolMemberRequest.class,
      responseType = dev.fencepost.v1.RemovePoolMemberResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.fencepost.v1.RemovePoolMemberRequest,
      dev.fencepost.v1.RemovePoolMemberResponse> getRemovePoolMemberMethod() {
    io.grpc.MethodDescriptor<dev.fencepost.v1.RemovePoolMemberRequest, dev.fencepost.v1.RemovePoolMemberResponse> getRemovePoolMemberMethod;
    if ((getRemovePoolMemberMethod = PoolServiceGrpc.getRemovePoolMemberMethod) == null) {
      synchronized (PoolServiceGrpc.class) {
        if ((getRemovePoolMemberMethod = PoolServiceGrpc.getRemovePoolMemberMethod) == null) {
          PoolServiceGrpc.getRemovePoolMemberMethod = getRemovePoolMemberMethod =
              io.grpc.MethodDescriptor.<dev.fencepost.v1.RemovePoolMemberRequest, dev.fencepost.v1.RemovePoolMemberResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "RemovePoolMember"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.fencepost.v1.RemovePoolMemberRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.fencepost.v1.RemovePoolMemberResponse.getDefaultInstance()))
              .setSchemaDescriptor(new PoolServiceMethodDescriptorSupplier("RemovePoolMember"))
              .build();
        }
      }
    }
    return getRemovePoolMemberMethod;
  }

  /**
   * Creates a new async stub that supports all call types for the service
   */
  public static PoolServiceStub newStub(io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<PoolServiceStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<PoolServiceStub>() {
        @java.lang.Override
        public PoolServiceStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new PoolServiceStub(channel, callOptions);
        }
      };
    return PoolServiceStub.newStub(factory, channel);
  }

  /**
   * Creates a new blocking-style stub that supports all types of calls on the service
   */
  public static PoolServiceBlockingV2Stub newBlockingV2Stub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<PoolServiceBlockingV2Stub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<PoolServiceBlockingV2Stub>() {
        @java.lang.Override
        public PoolServiceBlockingV2Stub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new PoolServiceBlockingV2Stub(channel, callOptions);
        }
      };
    return PoolServiceBlockingV2Stub.newStub(factory, channel);
  }

  /**
   * Creates a new blocking-style stub that supports unary and streaming output calls on the service
   */
  public static PoolServiceBlockingStub newBlockingStub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<PoolServiceBlockingStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<PoolServiceBlockingStub>() {
        @java.lang.Override
        public PoolServiceBlockingStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new PoolServiceBlockingStub(channel, callOptions);
        }
      };
    return PoolServiceBlockingStub.newStub(factory, channel);
  }

  /**
   * Creates a new ListenableFuture-style stub that supports unary calls on the service
   */
  public static PoolServiceFutureStub newFutureStub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<PoolServiceFutureStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<PoolServiceFutureStub>() {
        @java.lang.Override
        public PoolServiceFutureStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new PoolServiceFutureStub(channel, callOptions);
        }
      };
    return PoolServiceFutureStub.newStub(factory, channel);
  }

  /**
   * <pre>
   * PoolService manages pools: sets of accounts of one chain that share transactions. CreateTx with a
   * pool lets the ledger choose the account. Changes apply at once on all nodes and are recorded with
   * the commands of the account. They are for operators of all submitters.
   * </pre>
   */
  public interface AsyncService {

    /**
     * <pre>
     * CreatePool creates an empty pool. Repeating the call returns the pool; another chain is
     * rejected with ALREADY_EXISTS (POOL_EXISTS).
     * </pre>
     */
    default void createPool(dev.fencepost.v1.CreatePoolRequest request,
        io.grpc.stub.StreamObserver<dev.fencepost.v1.CreatePoolResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getCreatePoolMethod(), responseObserver);
    }

    /**
     * <pre>
     * ListPools returns pages of pools by name, with their members: those to which the caller has a
     * right.
     * </pre>
     */
    default void listPools(dev.fencepost.v1.ListPoolsRequest request,
        io.grpc.stub.StreamObserver<dev.fencepost.v1.ListPoolsResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getListPoolsMethod(), responseObserver);
    }

    /**
     * <pre>
     * GetPool returns a pool with its members.
     * </pre>
     */
    default void getPool(dev.fencepost.v1.GetPoolRequest request,
        io.grpc.stub.StreamObserver<dev.fencepost.v1.GetPoolResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getGetPoolMethod(), responseObserver);
    }

    /**
     * <pre>
     * AddPoolMember adds an account to a pool, or makes a draining one active again. Idempotent. An
     * account on another chain is rejected with FAILED_PRECONDITION (DECISION_REFUSED).
     * </pre>
     */
    default void addPoolMember(dev.fencepost.v1.AddPoolMemberRequest request,
        io.grpc.stub.StreamObserver<dev.fencepost.v1.AddPoolMemberResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getAddPoolMemberMethod(), responseObserver);
    }

    /**
     * <pre>
     * DrainPoolMember gives an account no new transactions of the pool. Those that it has are sent.
     * Idempotent.
     * </pre>
     */
    default void drainPoolMember(dev.fencepost.v1.DrainPoolMemberRequest request,
        io.grpc.stub.StreamObserver<dev.fencepost.v1.DrainPoolMemberResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getDrainPoolMemberMethod(), responseObserver);
    }

    /**
     * <pre>
     * RemovePoolMember is DrainPoolMember, and the pool does not list the account any more. Repeated
     * requests still return the transactions that it has. Idempotent.
     * </pre>
     */
    default void removePoolMember(dev.fencepost.v1.RemovePoolMemberRequest request,
        io.grpc.stub.StreamObserver<dev.fencepost.v1.RemovePoolMemberResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getRemovePoolMemberMethod(), responseObserver);
    }
  }

  /**
   * Base class for the server implementation of the service PoolService.
   * <pre>
   * PoolService manages pools: sets of accounts of one chain that share transactions. CreateTx with a
   * pool lets the ledger choose the account. Changes apply at once on all nodes and are recorded with
   * the commands of the account. They are for operators of all submitters.
   * </pre>
   */
  public static abstract class PoolServiceImplBase
      implements io.grpc.BindableService, AsyncService {

    @java.lang.Override public final io.grpc.ServerServiceDefinition bindService() {
      return PoolServiceGrpc.bindService(this);
    }
  }

  /**
   * A stub to allow clients to do asynchronous rpc calls to service PoolService.
   * <pre>
   * PoolService manages pools: sets of accounts of one chain that share transactions. CreateTx with a
   * pool lets the ledger choose the account. Changes apply at once on all nodes and are recorded with
   * the commands of the account. They are for operators of all submitters.
   * </pre>
   */
  public static final class PoolServiceStub
      extends io.grpc.stub.AbstractAsyncStub<PoolServiceStub> {
    private PoolServiceStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected PoolServiceStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new PoolServiceStub(channel, callOptions);
    }

    /**
     * <pre>
     * CreatePool creates an empty pool. Repeating the call returns the pool; another chain is
     * rejected with ALREADY_EXISTS (POOL_EXISTS).
     * </pre>
     */
    public void createPool(dev.fencepost.v1.CreatePoolRequest request,
        io.grpc.stub.StreamObserver<dev.fencepost.v1.CreatePoolResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getCreatePoolMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * ListPools returns pages of pools by name, with their members: those to which the caller has a
     * right.
     * </pre>
     */
    public void listPools(dev.fencepost.v1.ListPoolsRequest request,
        io.grpc.stub.StreamObserver<dev.fencepost.v1.ListPoolsResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getListPoolsMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * GetPool returns a pool with its members.
     * </pre>
     */
    public void getPool(dev.fencepost.v1.GetPoolRequest request,
        io.grpc.stub.StreamObserver<dev.fencepost.v1.GetPoolResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getGetPoolMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * AddPoolMember adds an account to a pool, or makes a draining one active again. Idempotent. An
     * account on another chain is rejected with FAILED_PRECONDITION (DECISION_REFUSED).
     * </pre>
     */
    public void addPoolMember(dev.fencepost.v1.AddPoolMemberRequest request,
        io.grpc.stub.StreamObserver<dev.fencepost.v1.AddPoolMemberResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getAddPoolMemberMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * DrainPoolMember gives an account no new transactions of the pool. Those that it has are sent.
     * Idempotent.
     * </pre>
     */
    public void drainPoolMember(dev.fencepost.v1.DrainPoolMemberRequest request,
        io.grpc.stub.StreamObserver<dev.fencepost.v1.DrainPoolMemberResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getDrainPoolMemberMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * RemovePoolMember is DrainPoolMember, and the pool does not list the account any more. Repeated
     * requests still return the transactions that it has. Idempotent.
     * </pre>
     */
    public void removePoolMember(dev.fencepost.v1.RemovePoolMemberRequest request,
        io.grpc.stub.StreamObserver<dev.fencepost.v1.RemovePoolMemberResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getRemovePoolMemberMethod(), getCallOptions()), request, responseObserver);
    }
  }

  /**
   * A stub to allow clients to do synchronous rpc calls to service PoolService.
   * <pre>
   * PoolService manages pools: sets of accounts of one chain that share transactions. CreateTx with a
   * pool lets the ledger choose the account. Changes apply at once on all nodes and are recorded with
   * the commands of the account. They are for operators of all submitters.
   * </pre>
   */
  public static final class PoolServiceBlockingV2Stub
      extends io.grpc.stub.AbstractBlockingStub<PoolServiceBlockingV2Stub> {
    private PoolServiceBlockingV2Stub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected PoolServiceBlockingV2Stub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new PoolServiceBlockingV2Stub(channel, callOptions);
    }

    /**
     * <pre>
     * CreatePool creates an empty pool. Repeating the call returns the pool; another chain is
     * rejected with ALREADY_EXISTS (POOL_EXISTS).
     * </pre>
     */
    public dev.fencepost.v1.CreatePoolResponse createPool(dev.fencepost.v1.CreatePoolRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getCreatePoolMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * ListPools returns pages of pools by name, with their members: those to which the caller has a
     * right.
     * </pre>
     */
    public dev.fencepost.v1.ListPoolsResponse listPools(dev.fencepost.v1.ListPoolsRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getListPoolsMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * GetPool returns a pool with its members.
     * </pre>
     */
    public dev.fencepost.v1.GetPoolResponse getPool(dev.fencepost.v1.GetPoolRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getGetPoolMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * AddPoolMember adds an account to a pool, or makes a draining one active again. Idempotent. An
     * account on another chain is rejected with FAILED_PRECONDITION (DECISION_REFUSED).
     * </pre>
     */
    public dev.fencepost.v1.AddPoolMemberResponse addPoolMember(dev.fencepost.v1.AddPoolMemberRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getAddPoolMemberMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * DrainPoolMember gives an account no new transactions of the pool. Those that it has are sent.
     * Idempotent.
     * </pre>
     */
    public dev.fencepost.v1.DrainPoolMemberResponse drainPoolMember(dev.fencepost.v1.DrainPoolMemberRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getDrainPoolMemberMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * RemovePoolMember is DrainPoolMember, and the pool does not list the account any more. Repeated
     * requests still return the transactions that it has. Idempotent.
     * </pre>
     */
    public dev.fencepost.v1.RemovePoolMemberResponse removePoolMember(dev.fencepost.v1.RemovePoolMemberRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getRemovePoolMemberMethod(), getCallOptions(), request);
    }
  }

  /**
   * A stub to allow clients to do limited synchronous rpc calls to service PoolService.
   * <pre>
   * PoolService manages pools: sets of accounts of one chain that share transactions. CreateTx with a
   * pool lets the ledger choose the account. Changes apply at once on all nodes and are recorded with
   * the commands of the account. They are for operators of all submitters.
   * </pre>
   */
  public static final class PoolServiceBlockingStub
      extends io.grpc.stub.AbstractBlockingStub<PoolServiceBlockingStub> {
    private PoolServiceBlockingStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected PoolServiceBlockingStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new PoolServiceBlockingStub(channel, callOptions);
    }

    /**
     * <pre>
     * CreatePool creates an empty pool. Repeating the call returns the pool; another chain is
     * rejected with ALREADY_EXISTS (POOL_EXISTS).
     * </pre>
     */
    public dev.fencepost.v1.CreatePoolResponse createPool(dev.fencepost.v1.CreatePoolRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getCreatePoolMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * ListPools returns pages of pools by name, with their members: those to which the caller has a
     * right.
     * </pre>
     */
    public dev.fencepost.v1.ListPoolsResponse listPools(dev.fencepost.v1.ListPoolsRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getListPoolsMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * GetPool returns a pool with its members.
     * </pre>
     */
    public dev.fencepost.v1.GetPoolResponse getPool(dev.fencepost.v1.GetPoolRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getGetPoolMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * AddPoolMember adds an account to a pool, or makes a draining one active again. Idempotent. An
     * account on another chain is rejected with FAILED_PRECONDITION (DECISION_REFUSED).
     * </pre>
     */
    public dev.fencepost.v1.AddPoolMemberResponse addPoolMember(dev.fencepost.v1.AddPoolMemberRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getAddPoolMemberMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * DrainPoolMember gives an account no new transactions of the pool. Those that it has are sent.
     * Idempotent.
     * </pre>
     */
    public dev.fencepost.v1.DrainPoolMemberResponse drainPoolMember(dev.fencepost.v1.DrainPoolMemberRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getDrainPoolMemberMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * RemovePoolMember is DrainPoolMember, and the pool does not list the account any more. Repeated
     * requests still return the transactions that it has. Idempotent.
     * </pre>
     */
    public dev.fencepost.v1.RemovePoolMemberResponse removePoolMember(dev.fencepost.v1.RemovePoolMemberRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getRemovePoolMemberMethod(), getCallOptions(), request);
    }
  }

  /**
   * A stub to allow clients to do ListenableFuture-style rpc calls to service PoolService.
   * <pre>
   * PoolService manages pools: sets of accounts of one chain that share transactions. CreateTx with a
   * pool lets the ledger choose the account. Changes apply at once on all nodes and are recorded with
   * the commands of the account. They are for operators of all submitters.
   * </pre>
   */
  public static final class PoolServiceFutureStub
      extends io.grpc.stub.AbstractFutureStub<PoolServiceFutureStub> {
    private PoolServiceFutureStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected PoolServiceFutureStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new PoolServiceFutureStub(channel, callOptions);
    }

    /**
     * <pre>
     * CreatePool creates an empty pool. Repeating the call returns the pool; another chain is
     * rejected with ALREADY_EXISTS (POOL_EXISTS).
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.fencepost.v1.CreatePoolResponse> createPool(
        dev.fencepost.v1.CreatePoolRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getCreatePoolMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * ListPools returns pages of pools by name, with their members: those to which the caller has a
     * right.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.fencepost.v1.ListPoolsResponse> listPools(
        dev.fencepost.v1.ListPoolsRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getListPoolsMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * GetPool returns a pool with its members.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.fencepost.v1.GetPoolResponse> getPool(
        dev.fencepost.v1.GetPoolRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getGetPoolMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * AddPoolMember adds an account to a pool, or makes a draining one active again. Idempotent. An
     * account on another chain is rejected with FAILED_PRECONDITION (DECISION_REFUSED).
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.fencepost.v1.AddPoolMemberResponse> addPoolMember(
        dev.fencepost.v1.AddPoolMemberRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getAddPoolMemberMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * DrainPoolMember gives an account no new transactions of the pool. Those that it has are sent.
     * Idempotent.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.fencepost.v1.DrainPoolMemberResponse> drainPoolMember(
        dev.fencepost.v1.DrainPoolMemberRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getDrainPoolMemberMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * RemovePoolMember is DrainPoolMember, and the pool does not list the account any more. Repeated
     * requests still return the transactions that it has. Idempotent.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.fencepost.v1.RemovePoolMemberResponse> removePoolMember(
        dev.fencepost.v1.RemovePoolMemberRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getRemovePoolMemberMethod(), getCallOptions()), request);
    }
  }

  private static final int METHODID_CREATE_POOL = 0;
  private static final int METHODID_LIST_POOLS = 1;
  private static final int METHODID_GET_POOL = 2;
  private static final int METHODID_ADD_POOL_MEMBER = 3;
  private static final int METHODID_DRAIN_POOL_MEMBER = 4;
  private static final int METHODID_REMOVE_POOL_MEMBER = 5;

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
        case METHODID_CREATE_POOL:
          serviceImpl.createPool((dev.fencepost.v1.CreatePoolRequest) request,
              (io.grpc.stub.StreamObserver<dev.fencepost.v1.CreatePoolResponse>) responseObserver);
          break;
        case METHODID_LIST_POOLS:
          serviceImpl.listPools((dev.fencepost.v1.ListPoolsRequest) request,
              (io.grpc.stub.StreamObserver<dev.fencepost.v1.ListPoolsResponse>) responseObserver);
          break;
        case METHODID_GET_POOL:
          serviceImpl.getPool((dev.fencepost.v1.GetPoolRequest) request,
              (io.grpc.stub.StreamObserver<dev.fencepost.v1.GetPoolResponse>) responseObserver);
          break;
        case METHODID_ADD_POOL_MEMBER:
          serviceImpl.addPoolMember((dev.fencepost.v1.AddPoolMemberRequest) request,
              (io.grpc.stub.StreamObserver<dev.fencepost.v1.AddPoolMemberResponse>) responseObserver);
          break;
        case METHODID_DRAIN_POOL_MEMBER:
          serviceImpl.drainPoolMember((dev.fencepost.v1.DrainPoolMemberRequest) request,
              (io.grpc.stub.StreamObserver<dev.fencepost.v1.DrainPoolMemberResponse>) responseObserver);
          break;
        case METHODID_REMOVE_POOL_MEMBER:
          serviceImpl.removePoolMember((dev.fencepost.v1.RemovePoolMemberRequest) request,
              (io.grpc.stub.StreamObserver<dev.fencepost.v1.RemovePoolMemberResponse>) responseObserver);
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
          getCreatePoolMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.fencepost.v1.CreatePoolRequest,
              dev.fencepost.v1.CreatePoolResponse>(
                service, METHODID_CREATE_POOL)))
        .addMethod(
          getListPoolsMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.fencepost.v1.ListPoolsRequest,
              dev.fencepost.v1.ListPoolsResponse>(
                service, METHODID_LIST_POOLS)))
        .addMethod(
          getGetPoolMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.fencepost.v1.GetPoolRequest,
              dev.fencepost.v1.GetPoolResponse>(
                service, METHODID_GET_POOL)))
        .addMethod(
          getAddPoolMemberMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.fencepost.v1.AddPoolMemberRequest,
              dev.fencepost.v1.AddPoolMemberResponse>(
                service, METHODID_ADD_POOL_MEMBER)))
        .addMethod(
          getDrainPoolMemberMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.fencepost.v1.DrainPoolMemberRequest,
              dev.fencepost.v1.DrainPoolMemberResponse>(
                service, METHODID_DRAIN_POOL_MEMBER)))
        .addMethod(
          getRemovePoolMemberMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.fencepost.v1.RemovePoolMemberRequest,
              dev.fencepost.v1.RemovePoolMemberResponse>(
                service, METHODID_REMOVE_POOL_MEMBER)))
        .build();
  }

  private static abstract class PoolServiceBaseDescriptorSupplier
      implements io.grpc.protobuf.ProtoFileDescriptorSupplier, io.grpc.protobuf.ProtoServiceDescriptorSupplier {
    PoolServiceBaseDescriptorSupplier() {}

    @java.lang.Override
    public com.google.protobuf.Descriptors.FileDescriptor getFileDescriptor() {
      return dev.fencepost.v1.PoolOuterClass.getDescriptor();
    }

    @java.lang.Override
    public com.google.protobuf.Descriptors.ServiceDescriptor getServiceDescriptor() {
      return getFileDescriptor().findServiceByName("PoolService");
    }
  }

  private static final class PoolServiceFileDescriptorSupplier
      extends PoolServiceBaseDescriptorSupplier {
    PoolServiceFileDescriptorSupplier() {}
  }

  private static final class PoolServiceMethodDescriptorSupplier
      extends PoolServiceBaseDescriptorSupplier
      implements io.grpc.protobuf.ProtoMethodDescriptorSupplier {
    private final java.lang.String methodName;

    PoolServiceMethodDescriptorSupplier(java.lang.String methodName) {
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
      synchronized (PoolServiceGrpc.class) {
        result = serviceDescriptor;
        if (result == null) {
          serviceDescriptor = result = io.grpc.ServiceDescriptor.newBuilder(SERVICE_NAME)
              .setSchemaDescriptor(new PoolServiceFileDescriptorSupplier())
              .addMethod(getCreatePoolMethod())
              .addMethod(getListPoolsMethod())
              .addMethod(getGetPoolMethod())
              .addMethod(getAddPoolMemberMethod())
              .addMethod(getDrainPoolMemberMethod())
              .addMethod(getRemovePoolMemberMethod())
              .build();
        }
      }
    }
    return result;
  }
}
