package dev.fencepost.v1;

import static io.grpc.MethodDescriptor.generateFullMethodName;

/**
 * <pre>
 * TxService accepts intents ("send this from that account") and reports their progress. Every RPC
 * works on every node.
 * </pre>
 */
@io.grpc.stub.annotations.GrpcGenerated
public final class TxServiceGrpc {

  private TxServiceGrpc() {}

  public static final java.lang.String SERVICE_NAME = "fencepost.v1.TxService";

  // Static method descriptors that strictly reflect the proto.
  private static volatile io.grpc.MethodDescriptor<dev.fencepost.v1.CreateTxRequest,
      dev.fencepost.v1.CreateTxResponse> getCreateTxMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "CreateTx",
      requestType = dev.fencepost.v1.CreateTxRequest.class,
      responseType = dev.fencepost.v1.CreateTxResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.fencepost.v1.CreateTxRequest,
      dev.fencepost.v1.CreateTxResponse> getCreateTxMethod() {
    io.grpc.MethodDescriptor<dev.fencepost.v1.CreateTxRequest, dev.fencepost.v1.CreateTxResponse> getCreateTxMethod;
    if ((getCreateTxMethod = TxServiceGrpc.getCreateTxMethod) == null) {
      synchronized (TxServiceGrpc.class) {
        if ((getCreateTxMethod = TxServiceGrpc.getCreateTxMethod) == null) {
          TxServiceGrpc.getCreateTxMethod = getCreateTxMethod =
              io.grpc.MethodDescriptor.<dev.fencepost.v1.CreateTxRequest, dev.fencepost.v1.CreateTxResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "CreateTx"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.fencepost.v1.CreateTxRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.fencepost.v1.CreateTxResponse.getDefaultInstance()))
              .setSchemaDescriptor(new TxServiceMethodDescriptorSupplier("CreateTx"))
              .build();
        }
      }
    }
    return getCreateTxMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.fencepost.v1.BatchCreateTxRequest,
      dev.fencepost.v1.BatchCreateTxResponse> getBatchCreateTxMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "BatchCreateTx",
      requestType = dev.fencepost.v1.BatchCreateTxRequest.class,
      responseType = dev.fencepost.v1.BatchCreateTxResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.fencepost.v1.BatchCreateTxRequest,
      dev.fencepost.v1.BatchCreateTxResponse> getBatchCreateTxMethod() {
    io.grpc.MethodDescriptor<dev.fencepost.v1.BatchCreateTxRequest, dev.fencepost.v1.BatchCreateTxResponse> getBatchCreateTxMethod;
    if ((getBatchCreateTxMethod = TxServiceGrpc.getBatchCreateTxMethod) == null) {
      synchronized (TxServiceGrpc.class) {
        if ((getBatchCreateTxMethod = TxServiceGrpc.getBatchCreateTxMethod) == null) {
          TxServiceGrpc.getBatchCreateTxMethod = getBatchCreateTxMethod =
              io.grpc.MethodDescriptor.<dev.fencepost.v1.BatchCreateTxRequest, dev.fencepost.v1.BatchCreateTxResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "BatchCreateTx"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.fencepost.v1.BatchCreateTxRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.fencepost.v1.BatchCreateTxResponse.getDefaultInstance()))
              .setSchemaDescriptor(new TxServiceMethodDescriptorSupplier("BatchCreateTx"))
              .build();
        }
      }
    }
    return getBatchCreateTxMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.fencepost.v1.SimulateTxRequest,
      dev.fencepost.v1.SimulateTxResponse> getSimulateTxMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "SimulateTx",
      requestType = dev.fencepost.v1.SimulateTxRequest.class,
      responseType = dev.fencepost.v1.SimulateTxResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.fencepost.v1.SimulateTxRequest,
      dev.fencepost.v1.SimulateTxResponse> getSimulateTxMethod() {
    io.grpc.MethodDescriptor<dev.fencepost.v1.SimulateTxRequest, dev.fencepost.v1.SimulateTxResponse> getSimulateTxMethod;
    if ((getSimulateTxMethod = TxServiceGrpc.getSimulateTxMethod) == null) {
      synchronized (TxServiceGrpc.class) {
        if ((getSimulateTxMethod = TxServiceGrpc.getSimulateTxMethod) == null) {
          TxServiceGrpc.getSimulateTxMethod = getSimulateTxMethod =
              io.grpc.MethodDescriptor.<dev.fencepost.v1.SimulateTxRequest, dev.fencepost.v1.SimulateTxResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "SimulateTx"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.fencepost.v1.SimulateTxRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.fencepost.v1.SimulateTxResponse.getDefaultInstance()))
              .setSchemaDescriptor(new TxServiceMethodDescriptorSupplier("SimulateTx"))
              .build();
        }
      }
    }
    return getSimulateTxMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.fencepost.v1.GetTxRequest,
      dev.fencepost.v1.GetTxResponse> getGetTxMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "GetTx",
      requestType = dev.fencepost.v1.GetTxRequest.class,
      responseType = dev.fencepost.v1.GetTxResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.fencepost.v1.GetTxRequest,
      dev.fencepost.v1.GetTxResponse> getGetTxMethod() {
    io.grpc.MethodDescriptor<dev.fencepost.v1.GetTxRequest, dev.fencepost.v1.GetTxResponse> getGetTxMethod;
    if ((getGetTxMethod = TxServiceGrpc.getGetTxMethod) == null) {
      synchronized (TxServiceGrpc.class) {
        if ((getGetTxMethod = TxServiceGrpc.getGetTxMethod) == null) {
          TxServiceGrpc.getGetTxMethod = getGetTxMethod =
              io.grpc.MethodDescriptor.<dev.fencepost.v1.GetTxRequest, dev.fencepost.v1.GetTxResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "GetTx"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.fencepost.v1.GetTxRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.fencepost.v1.GetTxResponse.getDefaultInstance()))
              .setSchemaDescriptor(new TxServiceMethodDescriptorSupplier("GetTx"))
              .build();
        }
      }
    }
    return getGetTxMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.fencepost.v1.ListTxsRequest,
      dev.fencepost.v1.ListTxsResponse> getListTxsMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "ListTxs",
      requestType = dev.fencepost.v1.ListTxsRequest.class,
      responseType = dev.fencepost.v1.ListTxsResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.fencepost.v1.ListTxsRequest,
      dev.fencepost.v1.ListTxsResponse> getListTxsMethod() {
    io.grpc.MethodDescriptor<dev.fencepost.v1.ListTxsRequest, dev.fencepost.v1.ListTxsResponse> getListTxsMethod;
    if ((getListTxsMethod = TxServiceGrpc.getListTxsMethod) == null) {
      synchronized (TxServiceGrpc.class) {
        if ((getListTxsMethod = TxServiceGrpc.getListTxsMethod) == null) {
          TxServiceGrpc.getListTxsMethod = getListTxsMethod =
              io.grpc.MethodDescriptor.<dev.fencepost.v1.ListTxsRequest, dev.fencepost.v1.ListTxsResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "ListTxs"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.fencepost.v1.ListTxsRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.fencepost.v1.ListTxsResponse.getDefaultInstance()))
              .setSchemaDescriptor(new TxServiceMethodDescriptorSupplier("ListTxs"))
              .build();
        }
      }
    }
    return getListTxsMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.fencepost.v1.CancelTxRequest,
      dev.fencepost.v1.CancelTxResponse> getCancelTxMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "CancelTx",
      requestType = dev.fencepost.v1.CancelTxRequest.class,
      responseType = dev.fencepost.v1.CancelTxResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.fencepost.v1.CancelTxRequest,
      dev.fencepost.v1.CancelTxResponse> getCancelTxMethod() {
    io.grpc.MethodDescriptor<dev.fencepost.v1.CancelTxRequest, dev.fencepost.v1.CancelTxResponse> getCancelTxMethod;
    if ((getCancelTxMethod = TxServiceGrpc.getCancelTxMethod) == null) {
      synchronized (TxServiceGrpc.class) {
        if ((getCancelTxMethod = TxServiceGrpc.getCancelTxMethod) == null) {
          TxServiceGrpc.getCancelTxMethod = getCancelTxMethod =
              io.grpc.MethodDescriptor.<dev.fencepost.v1.CancelTxRequest, dev.fencepost.v1.CancelTxResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "CancelTx"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.fencepost.v1.CancelTxRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.fencepost.v1.CancelTxResponse.getDefaultInstance()))
              .setSchemaDescriptor(new TxServiceMethodDescriptorSupplier("CancelTx"))
              .build();
        }
      }
    }
    return getCancelTxMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.fencepost.v1.SpeedUpTxRequest,
      dev.fencepost.v1.SpeedUpTxResponse> getSpeedUpTxMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "SpeedUpTx",
      requestType = dev.fencepost.v1.SpeedUpTxRequest.class,
      responseType = dev.fencepost.v1.SpeedUpTxResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.fencepost.v1.SpeedUpTxRequest,
      dev.fencepost.v1.SpeedUpTxResponse> getSpeedUpTxMethod() {
    io.grpc.MethodDescriptor<dev.fencepost.v1.SpeedUpTxRequest, dev.fencepost.v1.SpeedUpTxResponse> getSpeedUpTxMethod;
    if ((getSpeedUpTxMethod = TxServiceGrpc.getSpeedUpTxMethod) == null) {
      synchronized (TxServiceGrpc.class) {
        if ((getSpeedUpTxMethod = TxServiceGrpc.getSpeedUpTxMethod) == null) {
          TxServiceGrpc.getSpeedUpTxMethod = getSpeedUpTxMethod =
              io.grpc.MethodDescriptor.<dev.fencepost.v1.SpeedUpTxRequest, dev.fencepost.v1.SpeedUpTxResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "SpeedUpTx"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.fencepost.v1.SpeedUpTxRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.fencepost.v1.SpeedUpTxResponse.getDefaultInstance()))
              .setSchemaDescriptor(new TxServiceMethodDescriptorSupplier("SpeedUpTx"))
              .build();
        }
      }
    }
    return getSpeedUpTxMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.fencepost.v1.ApproveTxRequest,
      dev.fencepost.v1.ApproveTxResponse> getApproveTxMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "ApproveTx",
      requestType = dev.fencepost.v1.ApproveTxRequest.class,
      responseType = dev.fencepost.v1.ApproveTxResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.fencepost.v1.ApproveTxRequest,
      dev.fencepost.v1.ApproveTxResponse> getApproveTxMethod() {
    io.grpc.MethodDescriptor<dev.fencepost.v1.ApproveTxRequest, dev.fencepost.v1.ApproveTxResponse> getApproveTxMethod;
    if ((getApproveTxMethod = TxServiceGrpc.getApproveTxMethod) == null) {
      synchronized (TxServiceGrpc.class) {
        if ((getApproveTxMethod = TxServiceGrpc.getApproveTxMethod) == null) {
          TxServiceGrpc.getApproveTxMethod = getApproveTxMethod =
              io.grpc.MethodDescriptor.<dev.fencepost.v1.ApproveTxRequest, dev.fencepost.v1.ApproveTxResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "ApproveTx"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.fencepost.v1.ApproveTxRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.fencepost.v1.ApproveTxResponse.getDefaultInstance()))
              .setSchemaDescriptor(new TxServiceMethodDescriptorSupplier("ApproveTx"))
              .build();
        }
      }
    }
    return getApproveTxMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.fencepost.v1.DenyTxRequest,
      dev.fencepost.v1.DenyTxResponse> getDenyTxMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "DenyTx",
      requestType = dev.fencepost.v1.DenyTxRequest.class,
      responseType = dev.fencepost.v1.DenyTxResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.fencepost.v1.DenyTxRequest,
      dev.fencepost.v1.DenyTxResponse> getDenyTxMethod() {
    io.grpc.MethodDescriptor<dev.fencepost.v1.DenyTxRequest, dev.fencepost.v1.DenyTxResponse> getDenyTxMethod;
    if ((getDenyTxMethod = TxServiceGrpc.getDenyTxMethod) == null) {
      synchronized (TxServiceGrpc.class) {
        if ((getDenyTxMethod = TxServiceGrpc.getDenyTxMethod) == null) {
          TxServiceGrpc.getDenyTxMethod = getDenyTxMethod =
              io.grpc.MethodDescriptor.<dev.fencepost.v1.DenyTxRequest, dev.fencepost.v1.DenyTxResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "DenyTx"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.fencepost.v1.DenyTxRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.fencepost.v1.DenyTxResponse.getDefaultInstance()))
              .setSchemaDescriptor(new TxServiceMethodDescriptorSupplier("DenyTx"))
              .build();
        }
      }
    }
    return getDenyTxMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.fencepost.v1.WatchTxRequest,
      dev.fencepost.v1.WatchTxResponse> getWatchTxMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "WatchTx",
      requestType = dev.fencepost.v1.WatchTxRequest.class,
      responseType = dev.fencepost.v1.WatchTxResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.SERVER_STREAMING)
  public static io.grpc.MethodDescriptor<dev.fencepost.v1.WatchTxRequest,
      dev.fencepost.v1.WatchTxResponse> getWatchTxMethod() {
    io.grpc.MethodDescriptor<dev.fencepost.v1.WatchTxRequest, dev.fencepost.v1.WatchTxResponse> getWatchTxMethod;
    if ((getWatchTxMethod = TxServiceGrpc.getWatchTxMethod) == null) {
      synchronized (TxServiceGrpc.class) {
        if ((getWatchTxMethod = TxServiceGrpc.getWatchTxMethod) == null) {
          TxServiceGrpc.getWatchTxMethod = getWatchTxMethod =
              io.grpc.MethodDescriptor.<dev.fencepost.v1.WatchTxRequest, dev.fencepost.v1.WatchTxResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.SERVER_STREAMING)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "WatchTx"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.fencepost.v1.WatchTxRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.fencepost.v1.WatchTxResponse.getDefaultInstance()))
              .setSchemaDescriptor(new TxServiceMethodDescriptorSupplier("WatchTx"))
              .build();
        }
      }
    }
    return getWatchTxMethod;
  }

  /**
   * Creates a new async stub that supports all call types for the service
   */
  public static TxServiceStub newStub(io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<TxServiceStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<TxServiceStub>() {
        @java.lang.Override
        public TxServiceStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new TxServiceStub(channel, callOptions);
        }
      };
    return TxServiceStub.newStub(factory, channel);
  }

  /**
   * Creates a new blocking-style stub that supports all types of calls on the service
   */
  public static TxServiceBlockingV2Stub newBlockingV2Stub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<TxServiceBlockingV2Stub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<TxServiceBlockingV2Stub>() {
        @java.lang.Override
        public TxServiceBlockingV2Stub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new TxServiceBlockingV2Stub(channel, callOptions);
        }
      };
    return TxServiceBlockingV2Stub.newStub(factory, channel);
  }

  /**
   * Creates a new blocking-style stub that supports unary and streaming output calls on the service
   */
  public static TxServiceBlockingStub newBlockingStub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<TxServiceBlockingStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<TxServiceBlockingStub>() {
        @java.lang.Override
        public TxServiceBlockingStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new TxServiceBlockingStub(channel, callOptions);
        }
      };
    return TxServiceBlockingStub.newStub(factory, channel);
  }

  /**
   * Creates a new ListenableFuture-style stub that supports unary calls on the service
   */
  public static TxServiceFutureStub newFutureStub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<TxServiceFutureStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<TxServiceFutureStub>() {
        @java.lang.Override
        public TxServiceFutureStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new TxServiceFutureStub(channel, callOptions);
        }
      };
    return TxServiceFutureStub.newStub(factory, channel);
  }

  /**
   * <pre>
   * TxService accepts intents ("send this from that account") and reports their progress. Every RPC
   * works on every node.
   * </pre>
   */
  public interface AsyncService {

    /**
     * <pre>
     * CreateTx accepts a transaction and returns once it is durably queued. (submitter, request_id),
     * or (pool, request_id), names one transaction forever: repeating the call returns the same
     * transaction, and another payload under the same key is rejected with ALREADY_EXISTS
     * (IDEMPOTENCY_KEY_REUSED). After UNAVAILABLE, DEADLINE_EXCEEDED, or RESOURCE_EXHAUSTED with
     * RetryInfo (QUEUE_FULL, NODE_BUSY), retry the call unchanged. It cannot send twice, and a retry
     * of an accepted transaction succeeds even while the queue is full.
     * </pre>
     */
    default void createTx(dev.fencepost.v1.CreateTxRequest request,
        io.grpc.stub.StreamObserver<dev.fencepost.v1.CreateTxResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getCreateTxMethod(), responseObserver);
    }

    /**
     * <pre>
     * BatchCreateTx accepts up to 1,000 transactions, each as CreateTx would. It returns one result
     * per request, in their order; a rejected request does not affect the others. The limit for a
     * whole batch is payload.max_bytes plus 4 MiB, by default 4,323,328 bytes, and twice that as
     * JSON; split larger batches. Results omit payload.data, so that every response can be read.
     * Requests of one submitter are queued in their order. A request that occurs twice in a batch
     * returns the same transaction twice. Malformed JSON in any request fails the whole batch,
     * because nothing in it can be read then. QUEUE_FULL is reported per result, and clients do not
     * retry it automatically. After UNAVAILABLE, DEADLINE_EXCEEDED or RESOURCE_EXHAUSTED, of the call
     * or of single results, retry the batch or those requests unchanged: nothing is sent twice.
     * </pre>
     */
    default void batchCreateTx(dev.fencepost.v1.BatchCreateTxRequest request,
        io.grpc.stub.StreamObserver<dev.fencepost.v1.BatchCreateTxResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getBatchCreateTxMethod(), responseObserver);
    }

    /**
     * <pre>
     * SimulateTx simulates a transaction on the newest block, as its owner would before it takes a
     * nonce, and returns its gas, fees and highest cost. It writes nothing, and uses the RPC
     * endpoints of the node that serves the call. The result is a forecast: transactions that are in
     * flight or queued before it may change it.
     * </pre>
     */
    default void simulateTx(dev.fencepost.v1.SimulateTxRequest request,
        io.grpc.stub.StreamObserver<dev.fencepost.v1.SimulateTxResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getSimulateTxMethod(), responseObserver);
    }

    /**
     * <pre>
     * GetTx returns one transaction, by tx_id, by the key that created it, or by the hash of one of
     * its attempts. Over HTTP the path for a key is by-request?submitter=NAME&amp;request_id=KEY, or with
     * pool=NAME.
     * </pre>
     */
    default void getTx(dev.fencepost.v1.GetTxRequest request,
        io.grpc.stub.StreamObserver<dev.fencepost.v1.GetTxResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getGetTxMethod(), responseObserver);
    }

    /**
     * <pre>
     * ListTxs returns pages of transactions, newest first. A page ends after page_size rows or about
     * 1 MiB, but has at least one row. Only an empty next_page_token marks the last page.
     * </pre>
     */
    default void listTxs(dev.fencepost.v1.ListTxsRequest request,
        io.grpc.stub.StreamObserver<dev.fencepost.v1.ListTxsResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getListTxsMethod(), responseObserver);
    }

    /**
     * <pre>
     * CancelTx requests that a transaction is not executed. A queued transaction that never had a
     * nonce is cancelled immediately. Once a nonce is taken, the chain decides: the owner broadcasts
     * a cancel transaction with the same nonce, and the first one included wins. A transaction that
     * an operator requeued may have executed before; the owner cancels it once it is certain that it
     * did not. The outcome is an event: CANCELLED; or, if the cancellation lost, CONFIRMED with
     * reason CANCEL_LOST or REQUEUED_AND_RAN, or FAILED with reason REVERTED or REQUEUED_AND_RAN.
     * After a restore or a fail-over of the database, it ends as CANCELLED with executed = UNKNOWN
     * (RESTORED_UNKNOWN) if it may have executed in the lost part of the ledger. Idempotent.
     * </pre>
     */
    default void cancelTx(dev.fencepost.v1.CancelTxRequest request,
        io.grpc.stub.StreamObserver<dev.fencepost.v1.CancelTxResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getCancelTxMethod(), responseObserver);
    }

    /**
     * <pre>
     * SpeedUpTx replaces an in-flight transaction that is in no block with an attempt at higher fees,
     * regardless of the chain's bump policy. The nonce stays the same, so at most one attempt is
     * included. Returns once the owner has recorded the replacement. Rejected with
     * FAILED_PRECONDITION (DECISION_REFUSED) if there is nothing to speed up or a fee cap forbids it.
     * </pre>
     */
    default void speedUpTx(dev.fencepost.v1.SpeedUpTxRequest request,
        io.grpc.stub.StreamObserver<dev.fencepost.v1.SpeedUpTxResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getSpeedUpTxMethod(), responseObserver);
    }

    /**
     * <pre>
     * ApproveTx approves a transaction with TX_SUB_STATE_AWAITING_APPROVAL (callers.policy in the
     * configuration). It then joins the queue of its account in the order of acceptance. The caller
     * needs the right approve or the role operator, and must not be the one that created the
     * transaction (PERMISSION_DENIED). Of several decisions the first is valid: a different one is
     * rejected with FAILED_PRECONDITION (DECISION_REFUSED), and so is one after the approval has
     * expired. Idempotent.
     * </pre>
     */
    default void approveTx(dev.fencepost.v1.ApproveTxRequest request,
        io.grpc.stub.StreamObserver<dev.fencepost.v1.ApproveTxResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getApproveTxMethod(), responseObserver);
    }

    /**
     * <pre>
     * DenyTx fails a transaction with TX_SUB_STATE_AWAITING_APPROVAL: it ends as FAILED_FINAL with
     * reason APPROVAL_DENIED, not executed. Otherwise as ApproveTx.
     * </pre>
     */
    default void denyTx(dev.fencepost.v1.DenyTxRequest request,
        io.grpc.stub.StreamObserver<dev.fencepost.v1.DenyTxResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getDenyTxMethod(), responseObserver);
    }

    /**
     * <pre>
     * WatchTx streams events of one transaction, of several, of one submitter, of one pool, or of
     * all, in order per transaction. labels and states filter them. An interrupted stream resumes on
     * any node with the last resume_token received. Over HTTP the remaining request fields are query
     * parameters, as in events?states=TX_STATE_STUCK&amp;heartbeat=5s.
     * </pre>
     */
    default void watchTx(dev.fencepost.v1.WatchTxRequest request,
        io.grpc.stub.StreamObserver<dev.fencepost.v1.WatchTxResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getWatchTxMethod(), responseObserver);
    }
  }

  /**
   * Base class for the server implementation of the service TxService.
   * <pre>
   * TxService accepts intents ("send this from that account") and reports their progress. Every RPC
   * works on every node.
   * </pre>
   */
  public static abstract class TxServiceImplBase
      implements io.grpc.BindableService, AsyncService {

    @java.lang.Override public final io.grpc.ServerServiceDefinition bindService() {
      return TxServiceGrpc.bindService(this);
    }
  }

  /**
   * A stub to allow clients to do asynchronous rpc calls to service TxService.
   * <pre>
   * TxService accepts intents ("send this from that account") and reports their progress. Every RPC
   * works on every node.
   * </pre>
   */
  public static final class TxServiceStub
      extends io.grpc.stub.AbstractAsyncStub<TxServiceStub> {
    private TxServiceStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected TxServiceStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new TxServiceStub(channel, callOptions);
    }

    /**
     * <pre>
     * CreateTx accepts a transaction and returns once it is durably queued. (submitter, request_id),
     * or (pool, request_id), names one transaction forever: repeating the call returns the same
     * transaction, and another payload under the same key is rejected with ALREADY_EXISTS
     * (IDEMPOTENCY_KEY_REUSED). After UNAVAILABLE, DEADLINE_EXCEEDED, or RESOURCE_EXHAUSTED with
     * RetryInfo (QUEUE_FULL, NODE_BUSY), retry the call unchanged. It cannot send twice, and a retry
     * of an accepted transaction succeeds even while the queue is full.
     * </pre>
     */
    public void createTx(dev.fencepost.v1.CreateTxRequest request,
        io.grpc.stub.StreamObserver<dev.fencepost.v1.CreateTxResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getCreateTxMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * BatchCreateTx accepts up to 1,000 transactions, each as CreateTx would. It returns one result
     * per request, in their order; a rejected request does not affect the others. The limit for a
     * whole batch is payload.max_bytes plus 4 MiB, by default 4,323,328 bytes, and twice that as
     * JSON; split larger batches. Results omit payload.data, so that every response can be read.
     * Requests of one submitter are queued in their order. A request that occurs twice in a batch
     * returns the same transaction twice. Malformed JSON in any request fails the whole batch,
     * because nothing in it can be read then. QUEUE_FULL is reported per result, and clients do not
     * retry it automatically. After UNAVAILABLE, DEADLINE_EXCEEDED or RESOURCE_EXHAUSTED, of the call
     * or of single results, retry the batch or those requests unchanged: nothing is sent twice.
     * </pre>
     */
    public void batchCreateTx(dev.fencepost.v1.BatchCreateTxRequest request,
        io.grpc.stub.StreamObserver<dev.fencepost.v1.BatchCreateTxResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getBatchCreateTxMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * SimulateTx simulates a transaction on the newest block, as its owner would before it takes a
     * nonce, and returns its gas, fees and highest cost. It writes nothing, and uses the RPC
     * endpoints of the node that serves the call. The result is a forecast: transactions that are in
     * flight or queued before it may change it.
     * </pre>
     */
    public void simulateTx(dev.fencepost.v1.SimulateTxRequest request,
        io.grpc.stub.StreamObserver<dev.fencepost.v1.SimulateTxResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getSimulateTxMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * GetTx returns one transaction, by tx_id, by the key that created it, or by the hash of one of
     * its attempts. Over HTTP the path for a key is by-request?submitter=NAME&amp;request_id=KEY, or with
     * pool=NAME.
     * </pre>
     */
    public void getTx(dev.fencepost.v1.GetTxRequest request,
        io.grpc.stub.StreamObserver<dev.fencepost.v1.GetTxResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getGetTxMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * ListTxs returns pages of transactions, newest first. A page ends after page_size rows or about
     * 1 MiB, but has at least one row. Only an empty next_page_token marks the last page.
     * </pre>
     */
    public void listTxs(dev.fencepost.v1.ListTxsRequest request,
        io.grpc.stub.StreamObserver<dev.fencepost.v1.ListTxsResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getListTxsMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * CancelTx requests that a transaction is not executed. A queued transaction that never had a
     * nonce is cancelled immediately. Once a nonce is taken, the chain decides: the owner broadcasts
     * a cancel transaction with the same nonce, and the first one included wins. A transaction that
     * an operator requeued may have executed before; the owner cancels it once it is certain that it
     * did not. The outcome is an event: CANCELLED; or, if the cancellation lost, CONFIRMED with
     * reason CANCEL_LOST or REQUEUED_AND_RAN, or FAILED with reason REVERTED or REQUEUED_AND_RAN.
     * After a restore or a fail-over of the database, it ends as CANCELLED with executed = UNKNOWN
     * (RESTORED_UNKNOWN) if it may have executed in the lost part of the ledger. Idempotent.
     * </pre>
     */
    public void cancelTx(dev.fencepost.v1.CancelTxRequest request,
        io.grpc.stub.StreamObserver<dev.fencepost.v1.CancelTxResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getCancelTxMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * SpeedUpTx replaces an in-flight transaction that is in no block with an attempt at higher fees,
     * regardless of the chain's bump policy. The nonce stays the same, so at most one attempt is
     * included. Returns once the owner has recorded the replacement. Rejected with
     * FAILED_PRECONDITION (DECISION_REFUSED) if there is nothing to speed up or a fee cap forbids it.
     * </pre>
     */
    public void speedUpTx(dev.fencepost.v1.SpeedUpTxRequest request,
        io.grpc.stub.StreamObserver<dev.fencepost.v1.SpeedUpTxResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getSpeedUpTxMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * ApproveTx approves a transaction with TX_SUB_STATE_AWAITING_APPROVAL (callers.policy in the
     * configuration). It then joins the queue of its account in the order of acceptance. The caller
     * needs the right approve or the role operator, and must not be the one that created the
     * transaction (PERMISSION_DENIED). Of several decisions the first is valid: a different one is
     * rejected with FAILED_PRECONDITION (DECISION_REFUSED), and so is one after the approval has
     * expired. Idempotent.
     * </pre>
     */
    public void approveTx(dev.fencepost.v1.ApproveTxRequest request,
        io.grpc.stub.StreamObserver<dev.fencepost.v1.ApproveTxResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getApproveTxMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * DenyTx fails a transaction with TX_SUB_STATE_AWAITING_APPROVAL: it ends as FAILED_FINAL with
     * reason APPROVAL_DENIED, not executed. Otherwise as ApproveTx.
     * </pre>
     */
    public void denyTx(dev.fencepost.v1.DenyTxRequest request,
        io.grpc.stub.StreamObserver<dev.fencepost.v1.DenyTxResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getDenyTxMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * WatchTx streams events of one transaction, of several, of one submitter, of one pool, or of
     * all, in order per transaction. labels and states filter them. An interrupted stream resumes on
     * any node with the last resume_token received. Over HTTP the remaining request fields are query
     * parameters, as in events?states=TX_STATE_STUCK&amp;heartbeat=5s.
     * </pre>
     */
    public void watchTx(dev.fencepost.v1.WatchTxRequest request,
        io.grpc.stub.StreamObserver<dev.fencepost.v1.WatchTxResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncServerStreamingCall(
          getChannel().newCall(getWatchTxMethod(), getCallOptions()), request, responseObserver);
    }
  }

  /**
   * A stub to allow clients to do synchronous rpc calls to service TxService.
   * <pre>
   * TxService accepts intents ("send this from that account") and reports their progress. Every RPC
   * works on every node.
   * </pre>
   */
  public static final class TxServiceBlockingV2Stub
      extends io.grpc.stub.AbstractBlockingStub<TxServiceBlockingV2Stub> {
    private TxServiceBlockingV2Stub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected TxServiceBlockingV2Stub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new TxServiceBlockingV2Stub(channel, callOptions);
    }

    /**
     * <pre>
     * CreateTx accepts a transaction and returns once it is durably queued. (submitter, request_id),
     * or (pool, request_id), names one transaction forever: repeating the call returns the same
     * transaction, and another payload under the same key is rejected with ALREADY_EXISTS
     * (IDEMPOTENCY_KEY_REUSED). After UNAVAILABLE, DEADLINE_EXCEEDED, or RESOURCE_EXHAUSTED with
     * RetryInfo (QUEUE_FULL, NODE_BUSY), retry the call unchanged. It cannot send twice, and a retry
     * of an accepted transaction succeeds even while the queue is full.
     * </pre>
     */
    public dev.fencepost.v1.CreateTxResponse createTx(dev.fencepost.v1.CreateTxRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getCreateTxMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * BatchCreateTx accepts up to 1,000 transactions, each as CreateTx would. It returns one result
     * per request, in their order; a rejected request does not affect the others. The limit for a
     * whole batch is payload.max_bytes plus 4 MiB, by default 4,323,328 bytes, and twice that as
     * JSON; split larger batches. Results omit payload.data, so that every response can be read.
     * Requests of one submitter are queued in their order. A request that occurs twice in a batch
     * returns the same transaction twice. Malformed JSON in any request fails the whole batch,
     * because nothing in it can be read then. QUEUE_FULL is reported per result, and clients do not
     * retry it automatically. After UNAVAILABLE, DEADLINE_EXCEEDED or RESOURCE_EXHAUSTED, of the call
     * or of single results, retry the batch or those requests unchanged: nothing is sent twice.
     * </pre>
     */
    public dev.fencepost.v1.BatchCreateTxResponse batchCreateTx(dev.fencepost.v1.BatchCreateTxRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getBatchCreateTxMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * SimulateTx simulates a transaction on the newest block, as its owner would before it takes a
     * nonce, and returns its gas, fees and highest cost. It writes nothing, and uses the RPC
     * endpoints of the node that serves the call. The result is a forecast: transactions that are in
     * flight or queued before it may change it.
     * </pre>
     */
    public dev.fencepost.v1.SimulateTxResponse simulateTx(dev.fencepost.v1.SimulateTxRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getSimulateTxMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * GetTx returns one transaction, by tx_id, by the key that created it, or by the hash of one of
     * its attempts. Over HTTP the path for a key is by-request?submitter=NAME&amp;request_id=KEY, or with
     * pool=NAME.
     * </pre>
     */
    public dev.fencepost.v1.GetTxResponse getTx(dev.fencepost.v1.GetTxRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getGetTxMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * ListTxs returns pages of transactions, newest first. A page ends after page_size rows or about
     * 1 MiB, but has at least one row. Only an empty next_page_token marks the last page.
     * </pre>
     */
    public dev.fencepost.v1.ListTxsResponse listTxs(dev.fencepost.v1.ListTxsRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getListTxsMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * CancelTx requests that a transaction is not executed. A queued transaction that never had a
     * nonce is cancelled immediately. Once a nonce is taken, the chain decides: the owner broadcasts
     * a cancel transaction with the same nonce, and the first one included wins. A transaction that
     * an operator requeued may have executed before; the owner cancels it once it is certain that it
     * did not. The outcome is an event: CANCELLED; or, if the cancellation lost, CONFIRMED with
     * reason CANCEL_LOST or REQUEUED_AND_RAN, or FAILED with reason REVERTED or REQUEUED_AND_RAN.
     * After a restore or a fail-over of the database, it ends as CANCELLED with executed = UNKNOWN
     * (RESTORED_UNKNOWN) if it may have executed in the lost part of the ledger. Idempotent.
     * </pre>
     */
    public dev.fencepost.v1.CancelTxResponse cancelTx(dev.fencepost.v1.CancelTxRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getCancelTxMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * SpeedUpTx replaces an in-flight transaction that is in no block with an attempt at higher fees,
     * regardless of the chain's bump policy. The nonce stays the same, so at most one attempt is
     * included. Returns once the owner has recorded the replacement. Rejected with
     * FAILED_PRECONDITION (DECISION_REFUSED) if there is nothing to speed up or a fee cap forbids it.
     * </pre>
     */
    public dev.fencepost.v1.SpeedUpTxResponse speedUpTx(dev.fencepost.v1.SpeedUpTxRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getSpeedUpTxMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * ApproveTx approves a transaction with TX_SUB_STATE_AWAITING_APPROVAL (callers.policy in the
     * configuration). It then joins the queue of its account in the order of acceptance. The caller
     * needs the right approve or the role operator, and must not be the one that created the
     * transaction (PERMISSION_DENIED). Of several decisions the first is valid: a different one is
     * rejected with FAILED_PRECONDITION (DECISION_REFUSED), and so is one after the approval has
     * expired. Idempotent.
     * </pre>
     */
    public dev.fencepost.v1.ApproveTxResponse approveTx(dev.fencepost.v1.ApproveTxRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getApproveTxMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * DenyTx fails a transaction with TX_SUB_STATE_AWAITING_APPROVAL: it ends as FAILED_FINAL with
     * reason APPROVAL_DENIED, not executed. Otherwise as ApproveTx.
     * </pre>
     */
    public dev.fencepost.v1.DenyTxResponse denyTx(dev.fencepost.v1.DenyTxRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getDenyTxMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * WatchTx streams events of one transaction, of several, of one submitter, of one pool, or of
     * all, in order per transaction. labels and states filter them. An interrupted stream resumes on
     * any node with the last resume_token received. Over HTTP the remaining request fields are query
     * parameters, as in events?states=TX_STATE_STUCK&amp;heartbeat=5s.
     * </pre>
     */
    @io.grpc.ExperimentalApi("https://github.com/grpc/grpc-java/issues/10918")
    public io.grpc.stub.BlockingClientCall<?, dev.fencepost.v1.WatchTxResponse>
        watchTx(dev.fencepost.v1.WatchTxRequest request) {
      return io.grpc.stub.ClientCalls.blockingV2ServerStreamingCall(
          getChannel(), getWatchTxMethod(), getCallOptions(), request);
    }
  }

  /**
   * A stub to allow clients to do limited synchronous rpc calls to service TxService.
   * <pre>
   * TxService accepts intents ("send this from that account") and reports their progress. Every RPC
   * works on every node.
   * </pre>
   */
  public static final class TxServiceBlockingStub
      extends io.grpc.stub.AbstractBlockingStub<TxServiceBlockingStub> {
    private TxServiceBlockingStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected TxServiceBlockingStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new TxServiceBlockingStub(channel, callOptions);
    }

    /**
     * <pre>
     * CreateTx accepts a transaction and returns once it is durably queued. (submitter, request_id),
     * or (pool, request_id), names one transaction forever: repeating the call returns the same
     * transaction, and another payload under the same key is rejected with ALREADY_EXISTS
     * (IDEMPOTENCY_KEY_REUSED). After UNAVAILABLE, DEADLINE_EXCEEDED, or RESOURCE_EXHAUSTED with
     * RetryInfo (QUEUE_FULL, NODE_BUSY), retry the call unchanged. It cannot send twice, and a retry
     * of an accepted transaction succeeds even while the queue is full.
     * </pre>
     */
    public dev.fencepost.v1.CreateTxResponse createTx(dev.fencepost.v1.CreateTxRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getCreateTxMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * BatchCreateTx accepts up to 1,000 transactions, each as CreateTx would. It returns one result
     * per request, in their order; a rejected request does not affect the others. The limit for a
     * whole batch is payload.max_bytes plus 4 MiB, by default 4,323,328 bytes, and twice that as
     * JSON; split larger batches. Results omit payload.data, so that every response can be read.
     * Requests of one submitter are queued in their order. A request that occurs twice in a batch
     * returns the same transaction twice. Malformed JSON in any request fails the whole batch,
     * because nothing in it can be read then. QUEUE_FULL is reported per result, and clients do not
     * retry it automatically. After UNAVAILABLE, DEADLINE_EXCEEDED or RESOURCE_EXHAUSTED, of the call
     * or of single results, retry the batch or those requests unchanged: nothing is sent twice.
     * </pre>
     */
    public dev.fencepost.v1.BatchCreateTxResponse batchCreateTx(dev.fencepost.v1.BatchCreateTxRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getBatchCreateTxMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * SimulateTx simulates a transaction on the newest block, as its owner would before it takes a
     * nonce, and returns its gas, fees and highest cost. It writes nothing, and uses the RPC
     * endpoints of the node that serves the call. The result is a forecast: transactions that are in
     * flight or queued before it may change it.
     * </pre>
     */
    public dev.fencepost.v1.SimulateTxResponse simulateTx(dev.fencepost.v1.SimulateTxRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getSimulateTxMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * GetTx returns one transaction, by tx_id, by the key that created it, or by the hash of one of
     * its attempts. Over HTTP the path for a key is by-request?submitter=NAME&amp;request_id=KEY, or with
     * pool=NAME.
     * </pre>
     */
    public dev.fencepost.v1.GetTxResponse getTx(dev.fencepost.v1.GetTxRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getGetTxMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * ListTxs returns pages of transactions, newest first. A page ends after page_size rows or about
     * 1 MiB, but has at least one row. Only an empty next_page_token marks the last page.
     * </pre>
     */
    public dev.fencepost.v1.ListTxsResponse listTxs(dev.fencepost.v1.ListTxsRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getListTxsMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * CancelTx requests that a transaction is not executed. A queued transaction that never had a
     * nonce is cancelled immediately. Once a nonce is taken, the chain decides: the owner broadcasts
     * a cancel transaction with the same nonce, and the first one included wins. A transaction that
     * an operator requeued may have executed before; the owner cancels it once it is certain that it
     * did not. The outcome is an event: CANCELLED; or, if the cancellation lost, CONFIRMED with
     * reason CANCEL_LOST or REQUEUED_AND_RAN, or FAILED with reason REVERTED or REQUEUED_AND_RAN.
     * After a restore or a fail-over of the database, it ends as CANCELLED with executed = UNKNOWN
     * (RESTORED_UNKNOWN) if it may have executed in the lost part of the ledger. Idempotent.
     * </pre>
     */
    public dev.fencepost.v1.CancelTxResponse cancelTx(dev.fencepost.v1.CancelTxRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getCancelTxMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * SpeedUpTx replaces an in-flight transaction that is in no block with an attempt at higher fees,
     * regardless of the chain's bump policy. The nonce stays the same, so at most one attempt is
     * included. Returns once the owner has recorded the replacement. Rejected with
     * FAILED_PRECONDITION (DECISION_REFUSED) if there is nothing to speed up or a fee cap forbids it.
     * </pre>
     */
    public dev.fencepost.v1.SpeedUpTxResponse speedUpTx(dev.fencepost.v1.SpeedUpTxRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getSpeedUpTxMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * ApproveTx approves a transaction with TX_SUB_STATE_AWAITING_APPROVAL (callers.policy in the
     * configuration). It then joins the queue of its account in the order of acceptance. The caller
     * needs the right approve or the role operator, and must not be the one that created the
     * transaction (PERMISSION_DENIED). Of several decisions the first is valid: a different one is
     * rejected with FAILED_PRECONDITION (DECISION_REFUSED), and so is one after the approval has
     * expired. Idempotent.
     * </pre>
     */
    public dev.fencepost.v1.ApproveTxResponse approveTx(dev.fencepost.v1.ApproveTxRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getApproveTxMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * DenyTx fails a transaction with TX_SUB_STATE_AWAITING_APPROVAL: it ends as FAILED_FINAL with
     * reason APPROVAL_DENIED, not executed. Otherwise as ApproveTx.
     * </pre>
     */
    public dev.fencepost.v1.DenyTxResponse denyTx(dev.fencepost.v1.DenyTxRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getDenyTxMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * WatchTx streams events of one transaction, of several, of one submitter, of one pool, or of
     * all, in order per transaction. labels and states filter them. An interrupted stream resumes on
     * any node with the last resume_token received. Over HTTP the remaining request fields are query
     * parameters, as in events?states=TX_STATE_STUCK&amp;heartbeat=5s.
     * </pre>
     */
    public java.util.Iterator<dev.fencepost.v1.WatchTxResponse> watchTx(
        dev.fencepost.v1.WatchTxRequest request) {
      return io.grpc.stub.ClientCalls.blockingServerStreamingCall(
          getChannel(), getWatchTxMethod(), getCallOptions(), request);
    }
  }

  /**
   * A stub to allow clients to do ListenableFuture-style rpc calls to service TxService.
   * <pre>
   * TxService accepts intents ("send this from that account") and reports their progress. Every RPC
   * works on every node.
   * </pre>
   */
  public static final class TxServiceFutureStub
      extends io.grpc.stub.AbstractFutureStub<TxServiceFutureStub> {
    private TxServiceFutureStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected TxServiceFutureStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new TxServiceFutureStub(channel, callOptions);
    }

    /**
     * <pre>
     * CreateTx accepts a transaction and returns once it is durably queued. (submitter, request_id),
     * or (pool, request_id), names one transaction forever: repeating the call returns the same
     * transaction, and another payload under the same key is rejected with ALREADY_EXISTS
     * (IDEMPOTENCY_KEY_REUSED). After UNAVAILABLE, DEADLINE_EXCEEDED, or RESOURCE_EXHAUSTED with
     * RetryInfo (QUEUE_FULL, NODE_BUSY), retry the call unchanged. It cannot send twice, and a retry
     * of an accepted transaction succeeds even while the queue is full.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.fencepost.v1.CreateTxResponse> createTx(
        dev.fencepost.v1.CreateTxRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getCreateTxMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * BatchCreateTx accepts up to 1,000 transactions, each as CreateTx would. It returns one result
     * per request, in their order; a rejected request does not affect the others. The limit for a
     * whole batch is payload.max_bytes plus 4 MiB, by default 4,323,328 bytes, and twice that as
     * JSON; split larger batches. Results omit payload.data, so that every response can be read.
     * Requests of one submitter are queued in their order. A request that occurs twice in a batch
     * returns the same transaction twice. Malformed JSON in any request fails the whole batch,
     * because nothing in it can be read then. QUEUE_FULL is reported per result, and clients do not
     * retry it automatically. After UNAVAILABLE, DEADLINE_EXCEEDED or RESOURCE_EXHAUSTED, of the call
     * or of single results, retry the batch or those requests unchanged: nothing is sent twice.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.fencepost.v1.BatchCreateTxResponse> batchCreateTx(
        dev.fencepost.v1.BatchCreateTxRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getBatchCreateTxMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * SimulateTx simulates a transaction on the newest block, as its owner would before it takes a
     * nonce, and returns its gas, fees and highest cost. It writes nothing, and uses the RPC
     * endpoints of the node that serves the call. The result is a forecast: transactions that are in
     * flight or queued before it may change it.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.fencepost.v1.SimulateTxResponse> simulateTx(
        dev.fencepost.v1.SimulateTxRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getSimulateTxMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * GetTx returns one transaction, by tx_id, by the key that created it, or by the hash of one of
     * its attempts. Over HTTP the path for a key is by-request?submitter=NAME&amp;request_id=KEY, or with
     * pool=NAME.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.fencepost.v1.GetTxResponse> getTx(
        dev.fencepost.v1.GetTxRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getGetTxMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * ListTxs returns pages of transactions, newest first. A page ends after page_size rows or about
     * 1 MiB, but has at least one row. Only an empty next_page_token marks the last page.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.fencepost.v1.ListTxsResponse> listTxs(
        dev.fencepost.v1.ListTxsRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getListTxsMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * CancelTx requests that a transaction is not executed. A queued transaction that never had a
     * nonce is cancelled immediately. Once a nonce is taken, the chain decides: the owner broadcasts
     * a cancel transaction with the same nonce, and the first one included wins. A transaction that
     * an operator requeued may have executed before; the owner cancels it once it is certain that it
     * did not. The outcome is an event: CANCELLED; or, if the cancellation lost, CONFIRMED with
     * reason CANCEL_LOST or REQUEUED_AND_RAN, or FAILED with reason REVERTED or REQUEUED_AND_RAN.
     * After a restore or a fail-over of the database, it ends as CANCELLED with executed = UNKNOWN
     * (RESTORED_UNKNOWN) if it may have executed in the lost part of the ledger. Idempotent.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.fencepost.v1.CancelTxResponse> cancelTx(
        dev.fencepost.v1.CancelTxRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getCancelTxMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * SpeedUpTx replaces an in-flight transaction that is in no block with an attempt at higher fees,
     * regardless of the chain's bump policy. The nonce stays the same, so at most one attempt is
     * included. Returns once the owner has recorded the replacement. Rejected with
     * FAILED_PRECONDITION (DECISION_REFUSED) if there is nothing to speed up or a fee cap forbids it.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.fencepost.v1.SpeedUpTxResponse> speedUpTx(
        dev.fencepost.v1.SpeedUpTxRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getSpeedUpTxMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * ApproveTx approves a transaction with TX_SUB_STATE_AWAITING_APPROVAL (callers.policy in the
     * configuration). It then joins the queue of its account in the order of acceptance. The caller
     * needs the right approve or the role operator, and must not be the one that created the
     * transaction (PERMISSION_DENIED). Of several decisions the first is valid: a different one is
     * rejected with FAILED_PRECONDITION (DECISION_REFUSED), and so is one after the approval has
     * expired. Idempotent.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.fencepost.v1.ApproveTxResponse> approveTx(
        dev.fencepost.v1.ApproveTxRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getApproveTxMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * DenyTx fails a transaction with TX_SUB_STATE_AWAITING_APPROVAL: it ends as FAILED_FINAL with
     * reason APPROVAL_DENIED, not executed. Otherwise as ApproveTx.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.fencepost.v1.DenyTxResponse> denyTx(
        dev.fencepost.v1.DenyTxRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getDenyTxMethod(), getCallOptions()), request);
    }
  }

  private static final int METHODID_CREATE_TX = 0;
  private static final int METHODID_BATCH_CREATE_TX = 1;
  private static final int METHODID_SIMULATE_TX = 2;
  private static final int METHODID_GET_TX = 3;
  private static final int METHODID_LIST_TXS = 4;
  private static final int METHODID_CANCEL_TX = 5;
  private static final int METHODID_SPEED_UP_TX = 6;
  private static final int METHODID_APPROVE_TX = 7;
  private static final int METHODID_DENY_TX = 8;
  private static final int METHODID_WATCH_TX = 9;

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
        case METHODID_CREATE_TX:
          serviceImpl.createTx((dev.fencepost.v1.CreateTxRequest) request,
              (io.grpc.stub.StreamObserver<dev.fencepost.v1.CreateTxResponse>) responseObserver);
          break;
        case METHODID_BATCH_CREATE_TX:
          serviceImpl.batchCreateTx((dev.fencepost.v1.BatchCreateTxRequest) request,
              (io.grpc.stub.StreamObserver<dev.fencepost.v1.BatchCreateTxResponse>) responseObserver);
          break;
        case METHODID_SIMULATE_TX:
          serviceImpl.simulateTx((dev.fencepost.v1.SimulateTxRequest) request,
              (io.grpc.stub.StreamObserver<dev.fencepost.v1.SimulateTxResponse>) responseObserver);
          break;
        case METHODID_GET_TX:
          serviceImpl.getTx((dev.fencepost.v1.GetTxRequest) request,
              (io.grpc.stub.StreamObserver<dev.fencepost.v1.GetTxResponse>) responseObserver);
          break;
        case METHODID_LIST_TXS:
          serviceImpl.listTxs((dev.fencepost.v1.ListTxsRequest) request,
              (io.grpc.stub.StreamObserver<dev.fencepost.v1.ListTxsResponse>) responseObserver);
          break;
        case METHODID_CANCEL_TX:
          serviceImpl.cancelTx((dev.fencepost.v1.CancelTxRequest) request,
              (io.grpc.stub.StreamObserver<dev.fencepost.v1.CancelTxResponse>) responseObserver);
          break;
        case METHODID_SPEED_UP_TX:
          serviceImpl.speedUpTx((dev.fencepost.v1.SpeedUpTxRequest) request,
              (io.grpc.stub.StreamObserver<dev.fencepost.v1.SpeedUpTxResponse>) responseObserver);
          break;
        case METHODID_APPROVE_TX:
          serviceImpl.approveTx((dev.fencepost.v1.ApproveTxRequest) request,
              (io.grpc.stub.StreamObserver<dev.fencepost.v1.ApproveTxResponse>) responseObserver);
          break;
        case METHODID_DENY_TX:
          serviceImpl.denyTx((dev.fencepost.v1.DenyTxRequest) request,
              (io.grpc.stub.StreamObserver<dev.fencepost.v1.DenyTxResponse>) responseObserver);
          break;
        case METHODID_WATCH_TX:
          serviceImpl.watchTx((dev.fencepost.v1.WatchTxRequest) request,
              (io.grpc.stub.StreamObserver<dev.fencepost.v1.WatchTxResponse>) responseObserver);
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
          getCreateTxMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.fencepost.v1.CreateTxRequest,
              dev.fencepost.v1.CreateTxResponse>(
                service, METHODID_CREATE_TX)))
        .addMethod(
          getBatchCreateTxMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.fencepost.v1.BatchCreateTxRequest,
              dev.fencepost.v1.BatchCreateTxResponse>(
                service, METHODID_BATCH_CREATE_TX)))
        .addMethod(
          getSimulateTxMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.fencepost.v1.SimulateTxRequest,
              dev.fencepost.v1.SimulateTxResponse>(
                service, METHODID_SIMULATE_TX)))
        .addMethod(
          getGetTxMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.fencepost.v1.GetTxRequest,
              dev.fencepost.v1.GetTxResponse>(
                service, METHODID_GET_TX)))
        .addMethod(
          getListTxsMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.fencepost.v1.ListTxsRequest,
              dev.fencepost.v1.ListTxsResponse>(
                service, METHODID_LIST_TXS)))
        .addMethod(
          getCancelTxMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.fencepost.v1.CancelTxRequest,
              dev.fencepost.v1.CancelTxResponse>(
                service, METHODID_CANCEL_TX)))
        .addMethod(
          getSpeedUpTxMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.fencepost.v1.SpeedUpTxRequest,
              dev.fencepost.v1.SpeedUpTxResponse>(
                service, METHODID_SPEED_UP_TX)))
        .addMethod(
          getApproveTxMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.fencepost.v1.ApproveTxRequest,
              dev.fencepost.v1.ApproveTxResponse>(
                service, METHODID_APPROVE_TX)))
        .addMethod(
          getDenyTxMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.fencepost.v1.DenyTxRequest,
              dev.fencepost.v1.DenyTxResponse>(
                service, METHODID_DENY_TX)))
        .addMethod(
          getWatchTxMethod(),
          io.grpc.stub.ServerCalls.asyncServerStreamingCall(
            new MethodHandlers<
              dev.fencepost.v1.WatchTxRequest,
              dev.fencepost.v1.WatchTxResponse>(
                service, METHODID_WATCH_TX)))
        .build();
  }

  private static abstract class TxServiceBaseDescriptorSupplier
      implements io.grpc.protobuf.ProtoFileDescriptorSupplier, io.grpc.protobuf.ProtoServiceDescriptorSupplier {
    TxServiceBaseDescriptorSupplier() {}

    @java.lang.Override
    public com.google.protobuf.Descriptors.FileDescriptor getFileDescriptor() {
      return dev.fencepost.v1.TxOuterClass.getDescriptor();
    }

    @java.lang.Override
    public com.google.protobuf.Descriptors.ServiceDescriptor getServiceDescriptor() {
      return getFileDescriptor().findServiceByName("TxService");
    }
  }

  private static final class TxServiceFileDescriptorSupplier
      extends TxServiceBaseDescriptorSupplier {
    TxServiceFileDescriptorSupplier() {}
  }

  private static final class TxServiceMethodDescriptorSupplier
      extends TxServiceBaseDescriptorSupplier
      implements io.grpc.protobuf.ProtoMethodDescriptorSupplier {
    private final java.lang.String methodName;

    TxServiceMethodDescriptorSupplier(java.lang.String methodName) {
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
      synchronized (TxServiceGrpc.class) {
        result = serviceDescriptor;
        if (result == null) {
          serviceDescriptor = result = io.grpc.ServiceDescriptor.newBuilder(SERVICE_NAME)
              .setSchemaDescriptor(new TxServiceFileDescriptorSupplier())
              .addMethod(getCreateTxMethod())
              .addMethod(getBatchCreateTxMethod())
              .addMethod(getSimulateTxMethod())
              .addMethod(getGetTxMethod())
              .addMethod(getListTxsMethod())
              .addMethod(getCancelTxMethod())
              .addMethod(getSpeedUpTxMethod())
              .addMethod(getApproveTxMethod())
              .addMethod(getDenyTxMethod())
              .addMethod(getWatchTxMethod())
              .build();
        }
      }
    }
    return result;
  }
}
