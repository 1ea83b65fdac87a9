package dev.fencepost.v1;

import static io.grpc.MethodDescriptor.generateFullMethodName;

/**
 * <pre>
 * SinkService manages the delivery of events to other systems. It is for operators of all
 * submitters. Sinks are defined in the configuration of the nodes. Each decision is recorded with
 * its operator: see ListCommands.
 * </pre>
 */
@io.grpc.stub.annotations.GrpcGenerated
public final class SinkServiceGrpc {

  private SinkServiceGrpc() {}

  public static final java.lang.String SERVICE_NAME = "fencepost.v1.SinkService";

  // Static method descriptors that strictly reflect the proto.
  private static volatile io.grpc.MethodDescriptor<dev.fencepost.v1.ListSinksRequest,
      dev.fencepost.v1.ListSinksResponse> getListSinksMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "ListSinks",
      requestType = dev.fencepost.v1.ListSinksRequest.class,
      responseType = dev.fencepost.v1.ListSinksResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.fencepost.v1.ListSinksRequest,
      dev.fencepost.v1.ListSinksResponse> getListSinksMethod() {
    io.grpc.MethodDescriptor<dev.fencepost.v1.ListSinksRequest, dev.fencepost.v1.ListSinksResponse> getListSinksMethod;
    if ((getListSinksMethod = SinkServiceGrpc.getListSinksMethod) == null) {
      synchronized (SinkServiceGrpc.class) {
        if ((getListSinksMethod = SinkServiceGrpc.getListSinksMethod) == null) {
          SinkServiceGrpc.getListSinksMethod = getListSinksMethod =
              io.grpc.MethodDescriptor.<dev.fencepost.v1.ListSinksRequest, dev.fencepost.v1.ListSinksResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "ListSinks"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.fencepost.v1.ListSinksRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.fencepost.v1.ListSinksResponse.getDefaultInstance()))
              .setSchemaDescriptor(new SinkServiceMethodDescriptorSupplier("ListSinks"))
              .build();
        }
      }
    }
    return getListSinksMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.fencepost.v1.ListUndeliveredRequest,
      dev.fencepost.v1.ListUndeliveredResponse> getListUndeliveredMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "ListUndelivered",
      requestType = dev.fencepost.v1.ListUndeliveredRequest.class,
      responseType = dev.fencepost.v1.ListUndeliveredResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.fencepost.v1.ListUndeliveredRequest,
      dev.fencepost.v1.ListUndeliveredResponse> getListUndeliveredMethod() {
    io.grpc.MethodDescriptor<dev.fencepost.v1.ListUndeliveredRequest, dev.fencepost.v1.ListUndeliveredResponse> getListUndeliveredMethod;
    if ((getListUndeliveredMethod = SinkServiceGrpc.getListUndeliveredMethod) == null) {
      synchronized (SinkServiceGrpc.class) {
        if ((getListUndeliveredMethod = SinkServiceGrpc.getListUndeliveredMethod) == null) {
          SinkServiceGrpc.getListUndeliveredMethod = getListUndeliveredMethod =
              io.grpc.MethodDescriptor.<dev.fencepost.v1.ListUndeliveredRequest, dev.fencepost.v1.ListUndeliveredResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "ListUndelivered"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.fencepost.v1.ListUndeliveredRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.fencepost.v1.ListUndeliveredResponse.getDefaultInstance()))
              .setSchemaDescriptor(new SinkServiceMethodDescriptorSupplier("ListUndelivered"))
              .build();
        }
      }
    }
    return getListUndeliveredMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.fencepost.v1.PauseSinkRequest,
      dev.fencepost.v1.PauseSinkResponse> getPauseSinkMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "PauseSink",
      requestType = dev.fencepost.v1.PauseSinkRequest.class,
      responseType = dev.fencepost.v1.PauseSinkResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.fencepost.v1.PauseSinkRequest,
      dev.fencepost.v1.PauseSinkResponse> getPauseSinkMethod() {
    io.grpc.MethodDescriptor<dev.fencepost.v1.PauseSinkRequest, dev.fencepost.v1.PauseSinkResponse> getPauseSinkMethod;
    if ((getPauseSinkMethod = SinkServiceGrpc.getPauseSinkMethod) == null) {
      synchronized (SinkServiceGrpc.class) {
        if ((getPauseSinkMethod = SinkServiceGrpc.getPauseSinkMethod) == null) {
          SinkServiceGrpc.getPauseSinkMethod = getPauseSinkMethod =
              io.grpc.MethodDescriptor.<dev.fencepost.v1.PauseSinkRequest, dev.fencepost.v1.PauseSinkResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "PauseSink"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.fencepost.v1.PauseSinkRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.fencepost.v1.PauseSinkResponse.getDefaultInstance()))
              .setSchemaDescriptor(new SinkServiceMethodDescriptorSupplier("PauseSink"))
              .build();
        }
      }
    }
    return getPauseSinkMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.fencepost.v1.ResumeSinkRequest,
      dev.fencepost.v1.ResumeSinkResponse> getResumeSinkMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "ResumeSink",
      requestType = dev.fencepost.v1.ResumeSinkRequest.class,
      responseType = dev.fencepost.v1.ResumeSinkResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.fencepost.v1.ResumeSinkRequest,
      dev.fencepost.v1.ResumeSinkResponse> getResumeSinkMethod() {
    io.grpc.MethodDescriptor<dev.fencepost.v1.ResumeSinkRequest, dev.fencepost.v1.ResumeSinkResponse> getResumeSinkMethod;
    if ((getResumeSinkMethod = SinkServiceGrpc.getResumeSinkMethod) == null) {
      synchronized (SinkServiceGrpc.class) {
        if ((getResumeSinkMethod = SinkServiceGrpc.getResumeSinkMethod) == null) {
          SinkServiceGrpc.getResumeSinkMethod = getResumeSinkMethod =
              io.grpc.MethodDescriptor.<dev.fencepost.v1.ResumeSinkRequest, dev.fencepost.v1.ResumeSinkResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "ResumeSink"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.fencepost.v1.ResumeSinkRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.fencepost.v1.ResumeSinkResponse.getDefaultInstance()))
              .setSchemaDescriptor(new SinkServiceMethodDescriptorSupplier("ResumeSink"))
              .build();
        }
      }
    }
    return getResumeSinkMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.fencepost.v1.RetryUndeliveredRequest,
      dev.fencepost.v1.RetryUndeliveredResponse> getRetryUndeliveredMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "RetryUndelivered",
      requestType = dev.fencepost.v1.RetryUndeliveredRequest.class,
      responseType = dev.fencepost.v1.RetryUndeliveredResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.fencepost.v1.RetryUndeliveredRequest,
      dev.fencepost.v1.RetryUndeliveredResponse> getRetryUndeliveredMethod() {
    io.grpc.MethodDescriptor<dev.fencepost.v1.RetryUndeliveredRequest, dev.fencepost.v1.RetryUndeliveredResponse> getRetryUndeliveredMethod;
    if ((getRetryUndeliveredMethod = SinkServiceGrpc.getRetryUndeliveredMethod) == null) {
      synchronized (SinkServiceGrpc.class) {
        if ((getRetryUndeliveredMethod = SinkServiceGrpc.getRetryUndeliveredMethod) == null) {
          SinkServiceGrpc.getRetryUndeliveredMethod = getRetryUndeliveredMethod =
              io.grpc.MethodDescriptor.<dev.fencepost.v1.RetryUndeliveredRequest, dev.fencepost.v1.RetryUndeliveredResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "RetryUndelivered"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.fencepost.v1.RetryUndeliveredRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.fencepost.v1.RetryUndeliveredResponse.getDefaultInstance()))
              .setSchemaDescriptor(new SinkServiceMethodDescriptorSupplier("RetryUndelivered"))
              .build();
        }
      }
    }
    return getRetryUndeliveredMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.fencepost.v1.SkipUndeliveredRequest,
      dev.fencepost.v1.SkipUndeliveredResponse> getSkipUndeliveredMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "SkipUndelivered",
      requestType = dev.fencepost.v1.SkipUndeliveredRequest.class,
      responseType = dev.fencepost.v1.SkipUndeliveredResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.fencepost.v1.SkipUndeliveredRequest,
      dev.fencepost.v1.SkipUndeliveredResponse> getSkipUndeliveredMethod() {
    io.grpc.MethodDescriptor<dev.fencepost.v1.SkipUndeliveredRequest, dev.fencepost.v1.SkipUndeliveredResponse> getSkipUndeliveredMethod;
    if ((getSkipUndeliveredMethod = SinkServiceGrpc.getSkipUndeliveredMethod) == null) {
      synchronized (SinkServiceGrpc.class) {
        if ((getSkipUndeliveredMethod = SinkServiceGrpc.getSkipUndeliveredMethod) == null) {
          SinkServiceGrpc.getSkipUndeliveredMethod = getSkipUndeliveredMethod =
              io.grpc.MethodDescriptor.<dev.fencepost.v1.SkipUndeliveredRequest, dev.fencepost.v1.SkipUndeliveredResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "SkipUndelivered"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.fencepost.v1.SkipUndeliveredRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.fencepost.v1.SkipUndeliveredResponse.getDefaultInstance()))
              .setSchemaDescriptor(new SinkServiceMethodDescriptorSupplier("SkipUndelivered"))
              .build();
        }
      }
    }
    return getSkipUndeliveredMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.fencepost.v1.ReplaySinkRequest,
      dev.fencepost.v1.ReplaySinkResponse> getReplaySinkMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "ReplaySink",
      requestType = dev.fencepost.v1.ReplaySinkRequest.class,
      responseType = dev.fencepost.v1.ReplaySinkResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.fencepost.v1.ReplaySinkRequest,
      dev.fencepost.v1.ReplaySinkResponse> getReplaySinkMethod() {
    io.grpc.MethodDescriptor<dev.fencepost.v1.ReplaySinkRequest, dev.fencepost.v1.ReplaySinkResponse> getReplaySinkMethod;
    if ((getReplaySinkMethod = SinkServiceGrpc.getReplaySinkMethod) == null) {
      synchronized (SinkServiceGrpc.class) {
        if ((getReplaySinkMethod = SinkServiceGrpc.getReplaySinkMethod) == null) {
          SinkServiceGrpc.getReplaySinkMethod = getReplaySinkMethod =
              io.grpc.MethodDescriptor.<dev.fencepost.v1.ReplaySinkRequest, dev.fencepost.v1.ReplaySinkResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "ReplaySink"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.fencepost.v1.ReplaySinkRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.fencepost.v1.ReplaySinkResponse.getDefaultInstance()))
              .setSchemaDescriptor(new SinkServiceMethodDescriptorSupplier("ReplaySink"))
              .build();
        }
      }
    }
    return getReplaySinkMethod;
  }

  /**
   * Creates a new async stub that supports all call types for the service
   */
  public static SinkServiceStub newStub(io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<SinkServiceStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<SinkServiceStub>() {
        @java.lang.Override
        public SinkServiceStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new SinkServiceStub(channel, callOptions);
        }
      };
    return SinkServiceStub.newStub(factory, channel);
  }

  /**
   * Creates a new blocking-style stub that supports all types of calls on the service
   */
  public static SinkServiceBlockingV2Stub newBlockingV2Stub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<SinkServiceBlockingV2Stub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<SinkServiceBlockingV2Stub>() {
        @java.lang.Override
        public SinkServiceBlockingV2Stub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new SinkServiceBlockingV2Stub(channel, callOptions);
        }
      };
    return SinkServiceBlockingV2Stub.newStub(factory, channel);
  }

  /**
   * Creates a new blocking-style stub that supports unary and streaming output calls on the service
   */
  public static SinkServiceBlockingStub newBlockingStub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<SinkServiceBlockingStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<SinkServiceBlockingStub>() {
        @java.lang.Override
        public SinkServiceBlockingStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new SinkServiceBlockingStub(channel, callOptions);
        }
      };
    return SinkServiceBlockingStub.newStub(factory, channel);
  }

  /**
   * Creates a new ListenableFuture-style stub that supports unary calls on the service
   */
  public static SinkServiceFutureStub newFutureStub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<SinkServiceFutureStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<SinkServiceFutureStub>() {
        @java.lang.Override
        public SinkServiceFutureStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new SinkServiceFutureStub(channel, callOptions);
        }
      };
    return SinkServiceFutureStub.newStub(factory, channel);
  }

  /**
   * <pre>
   * SinkService manages the delivery of events to other systems. It is for operators of all
   * submitters. Sinks are defined in the configuration of the nodes. Each decision is recorded with
   * its operator: see ListCommands.
   * </pre>
   */
  public interface AsyncService {

    /**
     * <pre>
     * ListSinks returns all sinks by name, with their positions and counts of parked transactions.
     * </pre>
     */
    default void listSinks(dev.fencepost.v1.ListSinksRequest request,
        io.grpc.stub.StreamObserver<dev.fencepost.v1.ListSinksResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getListSinksMethod(), responseObserver);
    }

    /**
     * <pre>
     * ListUndelivered returns pages of the transactions whose events a sink could not deliver.
     * </pre>
     */
    default void listUndelivered(dev.fencepost.v1.ListUndeliveredRequest request,
        io.grpc.stub.StreamObserver<dev.fencepost.v1.ListUndeliveredResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getListUndeliveredMethod(), responseObserver);
    }

    /**
     * <pre>
     * PauseSink stops the deliveries of a sink. Events are kept. Idempotent.
     * </pre>
     */
    default void pauseSink(dev.fencepost.v1.PauseSinkRequest request,
        io.grpc.stub.StreamObserver<dev.fencepost.v1.PauseSinkResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getPauseSinkMethod(), responseObserver);
    }

    /**
     * <pre>
     * ResumeSink continues a sink that was paused, or disabled by its receiver. Idempotent.
     * </pre>
     */
    default void resumeSink(dev.fencepost.v1.ResumeSinkRequest request,
        io.grpc.stub.StreamObserver<dev.fencepost.v1.ResumeSinkResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getResumeSinkMethod(), responseObserver);
    }

    /**
     * <pre>
     * RetryUndelivered retries one transaction at once, or all that are dead. Its events are
     * delivered in order, beginning with the first undelivered one.
     * </pre>
     */
    default void retryUndelivered(dev.fencepost.v1.RetryUndeliveredRequest request,
        io.grpc.stub.StreamObserver<dev.fencepost.v1.RetryUndeliveredResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getRetryUndeliveredMethod(), responseObserver);
    }

    /**
     * <pre>
     * SkipUndelivered gives up the first undelivered event of a transaction; the events after it are
     * delivered. The event is named, so that a repeated call skips nothing more.
     * </pre>
     */
    default void skipUndelivered(dev.fencepost.v1.SkipUndeliveredRequest request,
        io.grpc.stub.StreamObserver<dev.fencepost.v1.SkipUndeliveredResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getSkipUndeliveredMethod(), responseObserver);
    }

    /**
     * <pre>
     * ReplaySink delivers again from a time or a resume token. Receivers get events that they have
     * already; the id of an event is the same each time.
     * </pre>
     */
    default void replaySink(dev.fencepost.v1.ReplaySinkRequest request,
        io.grpc.stub.StreamObserver<dev.fencepost.v1.ReplaySinkResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getReplaySinkMethod(), responseObserver);
    }
  }

  /**
   * Base class for the server implementation of the service SinkService.
   * <pre>
   * SinkService manages the delivery of events to other systems. It is for operators of all
   * submitters. Sinks are defined in the configuration of the nodes. Each decision is recorded with
   * its operator: see ListCommands.
   * </pre>
   */
  public static abstract class SinkServiceImplBase
      implements io.grpc.BindableService, AsyncService {

    @java.lang.Override public final io.grpc.ServerServiceDefinition bindService() {
      return SinkServiceGrpc.bindService(this);
    }
  }

  /**
   * A stub to allow clients to do asynchronous rpc calls to service SinkService.
   * <pre>
   * SinkService manages the delivery of events to other systems. It is for operators of all
   * submitters. Sinks are defined in the configuration of the nodes. Each decision is recorded with
   * its operator: see ListCommands.
   * </pre>
   */
  public static final class SinkServiceStub
      extends io.grpc.stub.AbstractAsyncStub<SinkServiceStub> {
    private SinkServiceStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected SinkServiceStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new SinkServiceStub(channel, callOptions);
    }

    /**
     * <pre>
     * ListSinks returns all sinks by name, with their positions and counts of parked transactions.
     * </pre>
     */
    public void listSinks(dev.fencepost.v1.ListSinksRequest request,
        io.grpc.stub.StreamObserver<dev.fencepost.v1.ListSinksResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getListSinksMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * ListUndelivered returns pages of the transactions whose events a sink could not deliver.
     * </pre>
     */
    public void listUndelivered(dev.fencepost.v1.ListUndeliveredRequest request,
        io.grpc.stub.StreamObserver<dev.fencepost.v1.ListUndeliveredResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getListUndeliveredMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * PauseSink stops the deliveries of a sink. Events are kept. Idempotent.
     * </pre>
     */
    public void pauseSink(dev.fencepost.v1.PauseSinkRequest request,
        io.grpc.stub.StreamObserver<dev.fencepost.v1.PauseSinkResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getPauseSinkMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * ResumeSink continues a sink that was paused, or disabled by its receiver. Idempotent.
     * </pre>
     */
    public void resumeSink(dev.fencepost.v1.ResumeSinkRequest request,
        io.grpc.stub.StreamObserver<dev.fencepost.v1.ResumeSinkResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getResumeSinkMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * RetryUndelivered retries one transaction at once, or all that are dead. Its events are
     * delivered in order, beginning with the first undelivered one.
     * </pre>
     */
    public void retryUndelivered(dev.fencepost.v1.RetryUndeliveredRequest request,
        io.grpc.stub.StreamObserver<dev.fencepost.v1.RetryUndeliveredResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getRetryUndeliveredMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * SkipUndelivered gives up the first undelivered event of a transaction; the events after it are
     * delivered. The event is named, so that a repeated call skips nothing more.
     * </pre>
     */
    public void skipUndelivered(dev.fencepost.v1.SkipUndeliveredRequest request,
        io.grpc.stub.StreamObserver<dev.fencepost.v1.SkipUndeliveredResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getSkipUndeliveredMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * ReplaySink delivers again from a time or a resume token. Receivers get events that they have
     * already; the id of an event is the same each time.
     * </pre>
     */
    public void replaySink(dev.fencepost.v1.ReplaySinkRequest request,
        io.grpc.stub.StreamObserver<dev.fencepost.v1.ReplaySinkResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getReplaySinkMethod(), getCallOptions()), request, responseObserver);
    }
  }

  /**
   * A stub to allow clients to do synchronous rpc calls to service SinkService.
   * <pre>
   * SinkService manages the delivery of events to other systems. It is for operators of all
   * submitters. Sinks are defined in the configuration of the nodes. Each decision is recorded with
   * its operator: see ListCommands.
   * </pre>
   */
  public static final class SinkServiceBlockingV2Stub
      extends io.grpc.stub.AbstractBlockingStub<SinkServiceBlockingV2Stub> {
    private SinkServiceBlockingV2Stub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected SinkServiceBlockingV2Stub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new SinkServiceBlockingV2Stub(channel, callOptions);
    }

    /**
     * <pre>
     * ListSinks returns all sinks by name, with their positions and counts of parked transactions.
     * </pre>
     */
    public dev.fencepost.v1.ListSinksResponse listSinks(dev.fencepost.v1.ListSinksRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getListSinksMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * ListUndelivered returns pages of the transactions whose events a sink could not deliver.
     * </pre>
     */
    public dev.fencepost.v1.ListUndeliveredResponse listUndelivered(dev.fencepost.v1.ListUndeliveredRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getListUndeliveredMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * PauseSink stops the deliveries of a sink. Events are kept. Idempotent.
     * </pre>
     */
    public dev.fencepost.v1.PauseSinkResponse pauseSink(dev.fencepost.v1.PauseSinkRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getPauseSinkMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * ResumeSink continues a sink that was paused, or disabled by its receiver. Idempotent.
     * </pre>
     */
    public dev.fencepost.v1.ResumeSinkResponse resumeSink(dev.fencepost.v1.ResumeSinkRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getResumeSinkMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * RetryUndelivered retries one transaction at once, or all that are dead. Its events are
     * delivered in order, beginning with the first undelivered one.
     * </pre>
     */
    public dev.fencepost.v1.RetryUndeliveredResponse retryUndelivered(dev.fencepost.v1.RetryUndeliveredRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getRetryUndeliveredMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * SkipUndelivered gives up the first undelivered event of a transaction; the events after it are
     * delivered. The event is named, so that a repeated call skips nothing more.
     * </pre>
     */
    public dev.fencepost.v1.SkipUndeliveredResponse skipUndelivered(dev.fencepost.v1.SkipUndeliveredRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getSkipUndeliveredMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * ReplaySink delivers again from a time or a resume token. Receivers get events that they have
     * already; the id of an event is the same each time.
     * </pre>
     */
    public dev.fencepost.v1.ReplaySinkResponse replaySink(dev.fencepost.v1.ReplaySinkRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getReplaySinkMethod(), getCallOptions(), request);
    }
  }

  /**
   * A stub to allow clients to do limited synchronous rpc calls to service SinkService.
   * <pre>
   * SinkService manages the delivery of events to other systems. It is for operators of all
   * submitters. Sinks are defined in the configuration of the nodes. Each decision is recorded with
   * its operator: see ListCommands.
   * </pre>
   */
  public static final class SinkServiceBlockingStub
      extends io.grpc.stub.AbstractBlockingStub<SinkServiceBlockingStub> {
    private SinkServiceBlockingStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected SinkServiceBlockingStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new SinkServiceBlockingStub(channel, callOptions);
    }

    /**
     * <pre>
     * ListSinks returns all sinks by name, with their positions and counts of parked transactions.
     * </pre>
     */
    public dev.fencepost.v1.ListSinksResponse listSinks(dev.fencepost.v1.ListSinksRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getListSinksMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * ListUndelivered returns pages of the transactions whose events a sink could not deliver.
     * </pre>
     */
    public dev.fencepost.v1.ListUndeliveredResponse listUndelivered(dev.fencepost.v1.ListUndeliveredRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getListUndeliveredMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * PauseSink stops the deliveries of a sink. Events are kept. Idempotent.
     * </pre>
     */
    public dev.fencepost.v1.PauseSinkResponse pauseSink(dev.fencepost.v1.PauseSinkRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getPauseSinkMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * ResumeSink continues a sink that was paused, or disabled by its receiver. Idempotent.
     * </pre>
     */
    public dev.fencepost.v1.ResumeSinkResponse resumeSink(dev.fencepost.v1.ResumeSinkRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getResumeSinkMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * RetryUndelivered retries one transaction at once, or all that are dead. Its events are
     * delivered in order, beginning with the first undelivered one.
     * </pre>
     */
    public dev.fencepost.v1.RetryUndeliveredResponse retryUndelivered(dev.fencepost.v1.RetryUndeliveredRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getRetryUndeliveredMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * SkipUndelivered gives up the first undelivered event of a transaction; the events after it are
     * delivered. The event is named, so that a repeated call skips nothing more.
     * </pre>
     */
    public dev.fencepost.v1.SkipUndeliveredResponse skipUndelivered(dev.fencepost.v1.SkipUndeliveredRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getSkipUndeliveredMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * ReplaySink delivers again from a time or a resume token. Receivers get events that they have
     * already; the id of an event is the same each time.
     * </pre>
     */
    public dev.fencepost.v1.ReplaySinkResponse replaySink(dev.fencepost.v1.ReplaySinkRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getReplaySinkMethod(), getCallOptions(), request);
    }
  }

  /**
   * A stub to allow clients to do ListenableFuture-style rpc calls to service SinkService.
   * <pre>
   * SinkService manages the delivery of events to other systems. It is for operators of all
   * submitters. Sinks are defined in the configuration of the nodes. Each decision is recorded with
   * its operator: see ListCommands.
   * </pre>
   */
  public static final class SinkServiceFutureStub
      extends io.grpc.stub.AbstractFutureStub<SinkServiceFutureStub> {
    private SinkServiceFutureStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected SinkServiceFutureStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new SinkServiceFutureStub(channel, callOptions);
    }

    /**
     * <pre>
     * ListSinks returns all sinks by name, with their positions and counts of parked transactions.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.fencepost.v1.ListSinksResponse> listSinks(
        dev.fencepost.v1.ListSinksRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getListSinksMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * ListUndelivered returns pages of the transactions whose events a sink could not deliver.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.fencepost.v1.ListUndeliveredResponse> listUndelivered(
        dev.fencepost.v1.ListUndeliveredRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getListUndeliveredMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * PauseSink stops the deliveries of a sink. Events are kept. Idempotent.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.fencepost.v1.PauseSinkResponse> pauseSink(
        dev.fencepost.v1.PauseSinkRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getPauseSinkMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * ResumeSink continues a sink that was paused, or disabled by its receiver. Idempotent.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.fencepost.v1.ResumeSinkResponse> resumeSink(
        dev.fencepost.v1.ResumeSinkRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getResumeSinkMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * RetryUndelivered retries one transaction at once, or all that are dead. Its events are
     * delivered in order, beginning with the first undelivered one.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.fencepost.v1.RetryUndeliveredResponse> retryUndelivered(
        dev.fencepost.v1.RetryUndeliveredRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getRetryUndeliveredMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * SkipUndelivered gives up the first undelivered event of a transaction; the events after it are
     * delivered. The event is named, so that a repeated call skips nothing more.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.fencepost.v1.SkipUndeliveredResponse> skipUndelivered(
        dev.fencepost.v1.SkipUndeliveredRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getSkipUndeliveredMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * ReplaySink delivers again from a time or a resume token. Receivers get events that they have
     * already; the id of an event is the same each time.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.fencepost.v1.ReplaySinkResponse> replaySink(
        dev.fencepost.v1.ReplaySinkRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getReplaySinkMethod(), getCallOptions()), request);
    }
  }

  private static final int METHODID_LIST_SINKS = 0;
  private static final int METHODID_LIST_UNDELIVERED = 1;
  private static final int METHODID_PAUSE_SINK = 2;
  private static final int METHODID_RESUME_SINK = 3;
  private static final int METHODID_RETRY_UNDELIVERED = 4;
  private static final int METHODID_SKIP_UNDELIVERED = 5;
  private static final int METHODID_REPLAY_SINK = 6;

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
        case METHODID_LIST_SINKS:
          serviceImpl.listSinks((dev.fencepost.v1.ListSinksRequest) request,
              (io.grpc.stub.StreamObserver<dev.fencepost.v1.ListSinksResponse>) responseObserver);
          break;
        case METHODID_LIST_UNDELIVERED:
          serviceImpl.listUndelivered((dev.fencepost.v1.ListUndeliveredRequest) request,
              (io.grpc.stub.StreamObserver<dev.fencepost.v1.ListUndeliveredResponse>) responseObserver);
          break;
        case METHODID_PAUSE_SINK:
          serviceImpl.pauseSink((dev.fencepost.v1.PauseSinkRequest) request,
              (io.grpc.stub.StreamObserver<dev.fencepost.v1.PauseSinkResponse>) responseObserver);
          break;
        case METHODID_RESUME_SINK:
          serviceImpl.resumeSink((dev.fencepost.v1.ResumeSinkRequest) request,
              (io.grpc.stub.StreamObserver<dev.fencepost.v1.ResumeSinkResponse>) responseObserver);
          break;
        case METHODID_RETRY_UNDELIVERED:
          serviceImpl.retryUndelivered((dev.fencepost.v1.RetryUndeliveredRequest) request,
              (io.grpc.stub.StreamObserver<dev.fencepost.v1.RetryUndeliveredResponse>) responseObserver);
          break;
        case METHODID_SKIP_UNDELIVERED:
          serviceImpl.skipUndelivered((dev.fencepost.v1.SkipUndeliveredRequest) request,
              (io.grpc.stub.StreamObserver<dev.fencepost.v1.SkipUndeliveredResponse>) responseObserver);
          break;
        case METHODID_REPLAY_SINK:
          serviceImpl.replaySink((dev.fencepost.v1.ReplaySinkRequest) request,
              (io.grpc.stub.StreamObserver<dev.fencepost.v1.ReplaySinkResponse>) responseObserver);
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
          getListSinksMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.fencepost.v1.ListSinksRequest,
              dev.fencepost.v1.ListSinksResponse>(
                service, METHODID_LIST_SINKS)))
        .addMethod(
          getListUndeliveredMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.fencepost.v1.ListUndeliveredRequest,
              dev.fencepost.v1.ListUndeliveredResponse>(
                service, METHODID_LIST_UNDELIVERED)))
        .addMethod(
          getPauseSinkMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.fencepost.v1.PauseSinkRequest,
              dev.fencepost.v1.PauseSinkResponse>(
                service, METHODID_PAUSE_SINK)))
        .addMethod(
          getResumeSinkMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.fencepost.v1.ResumeSinkRequest,
              dev.fencepost.v1.ResumeSinkResponse>(
                service, METHODID_RESUME_SINK)))
        .addMethod(
          getRetryUndeliveredMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.fencepost.v1.RetryUndeliveredRequest,
              dev.fencepost.v1.RetryUndeliveredResponse>(
                service, METHODID_RETRY_UNDELIVERED)))
        .addMethod(
          getSkipUndeliveredMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.fencepost.v1.SkipUndeliveredRequest,
              dev.fencepost.v1.SkipUndeliveredResponse>(
                service, METHODID_SKIP_UNDELIVERED)))
        .addMethod(
          getReplaySinkMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.fencepost.v1.ReplaySinkRequest,
              dev.fencepost.v1.ReplaySinkResponse>(
                service, METHODID_REPLAY_SINK)))
        .build();
  }

  private static abstract class SinkServiceBaseDescriptorSupplier
      implements io.grpc.protobuf.ProtoFileDescriptorSupplier, io.grpc.protobuf.ProtoServiceDescriptorSupplier {
    SinkServiceBaseDescriptorSupplier() {}

    @java.lang.Override
    public com.google.protobuf.Descriptors.FileDescriptor getFileDescriptor() {
      return dev.fencepost.v1.SinkOuterClass.getDescriptor();
    }

    @java.lang.Override
    public com.google.protobuf.Descriptors.ServiceDescriptor getServiceDescriptor() {
      return getFileDescriptor().findServiceByName("SinkService");
    }
  }

  private static final class SinkServiceFileDescriptorSupplier
      extends SinkServiceBaseDescriptorSupplier {
    SinkServiceFileDescriptorSupplier() {}
  }

  private static final class SinkServiceMethodDescriptorSupplier
      extends SinkServiceBaseDescriptorSupplier
      implements io.grpc.protobuf.ProtoMethodDescriptorSupplier {
    private final java.lang.String methodName;

    SinkServiceMethodDescriptorSupplier(java.lang.String methodName) {
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
      synchronized (SinkServiceGrpc.class) {
        result = serviceDescriptor;
        if (result == null) {
          serviceDescriptor = result = io.grpc.ServiceDescriptor.newBuilder(SERVICE_NAME)
              .setSchemaDescriptor(new SinkServiceFileDescriptorSupplier())
              .addMethod(getListSinksMethod())
              .addMethod(getListUndeliveredMethod())
              .addMethod(getPauseSinkMethod())
              .addMethod(getResumeSinkMethod())
              .addMethod(getRetryUndeliveredMethod())
              .addMethod(getSkipUndeliveredMethod())
              .addMethod(getReplaySinkMethod())
              .build();
        }
      }
    }
    return result;
  }
}
