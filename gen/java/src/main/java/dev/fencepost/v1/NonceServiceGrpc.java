package dev.fencepost.v1;

import static io.grpc.MethodDescriptor.generateFullMethodName;

/**
 * <pre>
 * NonceService reserves nonces of submitters in mode EXTERNAL, for clients that sign transactions
 * themselves. It is off by default (nonce_api.enabled), and requires an operator, or a caller with
 * the right nonces. All calls may be repeated.
 * No nonce is reserved twice while signed bytes for it may exist. A reservation that expires, or
 * whose client reports nothing, stays PENDING until the chain shows that its nonce was used, its
 * holder releases it as never signed, or an operator decides.
 * </pre>
 */
@io.grpc.stub.annotations.GrpcGenerated
public final class NonceServiceGrpc {

  private NonceServiceGrpc() {}

  public static final java.lang.String SERVICE_NAME = "fencepost.v1.NonceService";

  // Static method descriptors that strictly reflect the proto.
  private static volatile io.grpc.MethodDescriptor<dev.fencepost.v1.AllocateNonceRequest,
      dev.fencepost.v1.AllocateNonceResponse> getAllocateNonceMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "AllocateNonce",
      requestType = dev.fencepost.v1.AllocateNonceRequest.class,
      responseType = dev.fencepost.v1.AllocateNonceResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.fencepost.v1.AllocateNonceRequest,
      dev.fencepost.v1.AllocateNonceResponse> getAllocateNonceMethod() {
    io.grpc.MethodDescriptor<dev.fencepost.v1.AllocateNonceRequest, dev.fencepost.v1.AllocateNonceResponse> getAllocateNonceMethod;
    if ((getAllocateNonceMethod = NonceServiceGrpc.getAllocateNonceMethod) == null) {
      synchronized (NonceServiceGrpc.class) {
        if ((getAllocateNonceMethod = NonceServiceGrpc.getAllocateNonceMethod) == null) {
          NonceServiceGrpc.getAllocateNonceMethod = getAllocateNonceMethod =
              io.grpc.MethodDescriptor.<dev.fencepost.v1.AllocateNonceRequest, dev.fencepost.v1.AllocateNonceResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "AllocateNonce"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.fencepost.v1.AllocateNonceRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.fencepost.v1.AllocateNonceResponse.getDefaultInstance()))
              .setSchemaDescriptor(new NonceServiceMethodDescriptorSupplier("AllocateNonce"))
              .build();
        }
      }
    }
    return getAllocateNonceMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.fencepost.v1.RecordNonceHashRequest,
      dev.fencepost.v1.RecordNonceHashResponse> getRecordNonceHashMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "RecordNonceHash",
      requestType = dev.fencepost.v1.RecordNonceHashRequest.class,
      responseType = dev.fencepost.v1.RecordNonceHashResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.fencepost.v1.RecordNonceHashRequest,
      dev.fencepost.v1.RecordNonceHashResponse> getRecordNonceHashMethod() {
    io.grpc.MethodDescriptor<dev.fencepost.v1.RecordNonceHashRequest, dev.fencepost.v1.RecordNonceHashResponse> getRecordNonceHashMethod;
    if ((getRecordNonceHashMethod = NonceServiceGrpc.getRecordNonceHashMethod) == null) {
      synchronized (NonceServiceGrpc.class) {
        if ((getRecordNonceHashMethod = NonceServiceGrpc.getRecordNonceHashMethod) == null) {
          NonceServiceGrpc.getRecordNonceHashMethod = getRecordNonceHashMethod =
              io.grpc.MethodDescriptor.<dev.fencepost.v1.RecordNonceHashRequest, dev.fencepost.v1.RecordNonceHashResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "RecordNonceHash"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.fencepost.v1.RecordNonceHashRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.fencepost.v1.RecordNonceHashResponse.getDefaultInstance()))
              .setSchemaDescriptor(new NonceServiceMethodDescriptorSupplier("RecordNonceHash"))
              .build();
        }
      }
    }
    return getRecordNonceHashMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.fencepost.v1.ReleaseNonceRequest,
      dev.fencepost.v1.ReleaseNonceResponse> getReleaseNonceMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "ReleaseNonce",
      requestType = dev.fencepost.v1.ReleaseNonceRequest.class,
      responseType = dev.fencepost.v1.ReleaseNonceResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.fencepost.v1.ReleaseNonceRequest,
      dev.fencepost.v1.ReleaseNonceResponse> getReleaseNonceMethod() {
    io.grpc.MethodDescriptor<dev.fencepost.v1.ReleaseNonceRequest, dev.fencepost.v1.ReleaseNonceResponse> getReleaseNonceMethod;
    if ((getReleaseNonceMethod = NonceServiceGrpc.getReleaseNonceMethod) == null) {
      synchronized (NonceServiceGrpc.class) {
        if ((getReleaseNonceMethod = NonceServiceGrpc.getReleaseNonceMethod) == null) {
          NonceServiceGrpc.getReleaseNonceMethod = getReleaseNonceMethod =
              io.grpc.MethodDescriptor.<dev.fencepost.v1.ReleaseNonceRequest, dev.fencepost.v1.ReleaseNonceResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "ReleaseNonce"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.fencepost.v1.ReleaseNonceRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.fencepost.v1.ReleaseNonceResponse.getDefaultInstance()))
              .setSchemaDescriptor(new NonceServiceMethodDescriptorSupplier("ReleaseNonce"))
              .build();
        }
      }
    }
    return getReleaseNonceMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.fencepost.v1.QuarantineNonceRequest,
      dev.fencepost.v1.QuarantineNonceResponse> getQuarantineNonceMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "QuarantineNonce",
      requestType = dev.fencepost.v1.QuarantineNonceRequest.class,
      responseType = dev.fencepost.v1.QuarantineNonceResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.fencepost.v1.QuarantineNonceRequest,
      dev.fencepost.v1.QuarantineNonceResponse> getQuarantineNonceMethod() {
    io.grpc.MethodDescriptor<dev.fencepost.v1.QuarantineNonceRequest, dev.fencepost.v1.QuarantineNonceResponse> getQuarantineNonceMethod;
    if ((getQuarantineNonceMethod = NonceServiceGrpc.getQuarantineNonceMethod) == null) {
      synchronized (NonceServiceGrpc.class) {
        if ((getQuarantineNonceMethod = NonceServiceGrpc.getQuarantineNonceMethod) == null) {
          NonceServiceGrpc.getQuarantineNonceMethod = getQuarantineNonceMethod =
              io.grpc.MethodDescriptor.<dev.fencepost.v1.QuarantineNonceRequest, dev.fencepost.v1.QuarantineNonceResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "QuarantineNonce"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.fencepost.v1.QuarantineNonceRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.fencepost.v1.QuarantineNonceResponse.getDefaultInstance()))
              .setSchemaDescriptor(new NonceServiceMethodDescriptorSupplier("QuarantineNonce"))
              .build();
        }
      }
    }
    return getQuarantineNonceMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.fencepost.v1.ExtendReservationRequest,
      dev.fencepost.v1.ExtendReservationResponse> getExtendReservationMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "ExtendReservation",
      requestType = dev.fencepost.v1.ExtendReservationRequest.class,
      responseType = dev.fencepost.v1.ExtendReservationResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.fencepost.v1.ExtendReservationRequest,
      dev.fencepost.v1.ExtendReservationResponse> getExtendReservationMethod() {
    io.grpc.MethodDescriptor<dev.fencepost.v1.ExtendReservationRequest, dev.fencepost.v1.ExtendReservationResponse> getExtendReservationMethod;
    if ((getExtendReservationMethod = NonceServiceGrpc.getExtendReservationMethod) == null) {
      synchronized (NonceServiceGrpc.class) {
        if ((getExtendReservationMethod = NonceServiceGrpc.getExtendReservationMethod) == null) {
          NonceServiceGrpc.getExtendReservationMethod = getExtendReservationMethod =
              io.grpc.MethodDescriptor.<dev.fencepost.v1.ExtendReservationRequest, dev.fencepost.v1.ExtendReservationResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "ExtendReservation"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.fencepost.v1.ExtendReservationRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.fencepost.v1.ExtendReservationResponse.getDefaultInstance()))
              .setSchemaDescriptor(new NonceServiceMethodDescriptorSupplier("ExtendReservation"))
              .build();
        }
      }
    }
    return getExtendReservationMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.fencepost.v1.SubmitSignedRequest,
      dev.fencepost.v1.SubmitSignedResponse> getSubmitSignedMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "SubmitSigned",
      requestType = dev.fencepost.v1.SubmitSignedRequest.class,
      responseType = dev.fencepost.v1.SubmitSignedResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.fencepost.v1.SubmitSignedRequest,
      dev.fencepost.v1.SubmitSignedResponse> getSubmitSignedMethod() {
    io.grpc.MethodDescriptor<dev.fencepost.v1.SubmitSignedRequest, dev.fencepost.v1.SubmitSignedResponse> getSubmitSignedMethod;
    if ((getSubmitSignedMethod = NonceServiceGrpc.getSubmitSignedMethod) == null) {
      synchronized (NonceServiceGrpc.class) {
        if ((getSubmitSignedMethod = NonceServiceGrpc.getSubmitSignedMethod) == null) {
          NonceServiceGrpc.getSubmitSignedMethod = getSubmitSignedMethod =
              io.grpc.MethodDescriptor.<dev.fencepost.v1.SubmitSignedRequest, dev.fencepost.v1.SubmitSignedResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "SubmitSigned"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.fencepost.v1.SubmitSignedRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.fencepost.v1.SubmitSignedResponse.getDefaultInstance()))
              .setSchemaDescriptor(new NonceServiceMethodDescriptorSupplier("SubmitSigned"))
              .build();
        }
      }
    }
    return getSubmitSignedMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.fencepost.v1.GetNonceRequest,
      dev.fencepost.v1.GetNonceResponse> getGetNonceMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "GetNonce",
      requestType = dev.fencepost.v1.GetNonceRequest.class,
      responseType = dev.fencepost.v1.GetNonceResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.fencepost.v1.GetNonceRequest,
      dev.fencepost.v1.GetNonceResponse> getGetNonceMethod() {
    io.grpc.MethodDescriptor<dev.fencepost.v1.GetNonceRequest, dev.fencepost.v1.GetNonceResponse> getGetNonceMethod;
    if ((getGetNonceMethod = NonceServiceGrpc.getGetNonceMethod) == null) {
      synchronized (NonceServiceGrpc.class) {
        if ((getGetNonceMethod = NonceServiceGrpc.getGetNonceMethod) == null) {
          NonceServiceGrpc.getGetNonceMethod = getGetNonceMethod =
              io.grpc.MethodDescriptor.<dev.fencepost.v1.GetNonceRequest, dev.fencepost.v1.GetNonceResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "GetNonce"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.fencepost.v1.GetNonceRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.fencepost.v1.GetNonceResponse.getDefaultInstance()))
              .setSchemaDescriptor(new NonceServiceMethodDescriptorSupplier("GetNonce"))
              .build();
        }
      }
    }
    return getGetNonceMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.fencepost.v1.ListNoncesRequest,
      dev.fencepost.v1.ListNoncesResponse> getListNoncesMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "ListNonces",
      requestType = dev.fencepost.v1.ListNoncesRequest.class,
      responseType = dev.fencepost.v1.ListNoncesResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.fencepost.v1.ListNoncesRequest,
      dev.fencepost.v1.ListNoncesResponse> getListNoncesMethod() {
    io.grpc.MethodDescriptor<dev.fencepost.v1.ListNoncesRequest, dev.fencepost.v1.ListNoncesResponse> getListNoncesMethod;
    if ((getListNoncesMethod = NonceServiceGrpc.getListNoncesMethod) == null) {
      synchronized (NonceServiceGrpc.class) {
        if ((getListNoncesMethod = NonceServiceGrpc.getListNoncesMethod) == null) {
          NonceServiceGrpc.getListNoncesMethod = getListNoncesMethod =
              io.grpc.MethodDescriptor.<dev.fencepost.v1.ListNoncesRequest, dev.fencepost.v1.ListNoncesResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "ListNonces"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.fencepost.v1.ListNoncesRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.fencepost.v1.ListNoncesResponse.getDefaultInstance()))
              .setSchemaDescriptor(new NonceServiceMethodDescriptorSupplier("ListNonces"))
              .build();
        }
      }
    }
    return getListNoncesMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.fencepost.v1.ResolveNonceRequest,
      dev.fencepost.v1.ResolveNonceResponse> getResolveNonceMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "ResolveNonce",
      requestType = dev.fencepost.v1.ResolveNonceRequest.class,
      responseType = dev.fencepost.v1.ResolveNonceResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.fencepost.v1.ResolveNonceRequest,
      dev.fencepost.v1.ResolveNonceResponse> getResolveNonceMethod() {
    io.grpc.MethodDescriptor<dev.fencepost.v1.ResolveNonceRequest, dev.fencepost.v1.ResolveNonceResponse> getResolveNonceMethod;
    if ((getResolveNonceMethod = NonceServiceGrpc.getResolveNonceMethod) == null) {
      synchronized (NonceServiceGrpc.class) {
        if ((getResolveNonceMethod = NonceServiceGrpc.getResolveNonceMethod) == null) {
          NonceServiceGrpc.getResolveNonceMethod = getResolveNonceMethod =
              io.grpc.MethodDescriptor.<dev.fencepost.v1.ResolveNonceRequest, dev.fencepost.v1.ResolveNonceResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "ResolveNonce"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.fencepost.v1.ResolveNonceRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.fencepost.v1.ResolveNonceResponse.getDefaultInstance()))
              .setSchemaDescriptor(new NonceServiceMethodDescriptorSupplier("ResolveNonce"))
              .build();
        }
      }
    }
    return getResolveNonceMethod;
  }

  /**
   * Creates a new async stub that supports all call types for the service
   */
  public static NonceServiceStub newStub(io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<NonceServiceStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<NonceServiceStub>() {
        @java.lang.Override
        public NonceServiceStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new NonceServiceStub(channel, callOptions);
        }
      };
    return NonceServiceStub.newStub(factory, channel);
  }

  /**
   * Creates a new blocking-style stub that supports all types of calls on the service
   */
  public static NonceServiceBlockingV2Stub newBlockingV2Stub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<NonceServiceBlockingV2Stub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<NonceServiceBlockingV2Stub>() {
        @java.lang.Override
        public NonceServiceBlockingV2Stub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new NonceServiceBlockingV2Stub(channel, callOptions);
        }
      };
    return NonceServiceBlockingV2Stub.newStub(factory, channel);
  }

  /**
   * Creates a new blocking-style stub that supports unary and streaming output calls on the service
   */
  public static NonceServiceBlockingStub newBlockingStub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<NonceServiceBlockingStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<NonceServiceBlockingStub>() {
        @java.lang.Override
        public NonceServiceBlockingStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new NonceServiceBlockingStub(channel, callOptions);
        }
      };
    return NonceServiceBlockingStub.newStub(factory, channel);
  }

  /**
   * Creates a new ListenableFuture-style stub that supports unary calls on the service
   */
  public static NonceServiceFutureStub newFutureStub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<NonceServiceFutureStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<NonceServiceFutureStub>() {
        @java.lang.Override
        public NonceServiceFutureStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new NonceServiceFutureStub(channel, callOptions);
        }
      };
    return NonceServiceFutureStub.newStub(factory, channel);
  }

  /**
   * <pre>
   * NonceService reserves nonces of submitters in mode EXTERNAL, for clients that sign transactions
   * themselves. It is off by default (nonce_api.enabled), and requires an operator, or a caller with
   * the right nonces. All calls may be repeated.
   * No nonce is reserved twice while signed bytes for it may exist. A reservation that expires, or
   * whose client reports nothing, stays PENDING until the chain shows that its nonce was used, its
   * holder releases it as never signed, or an operator decides.
   * </pre>
   */
  public interface AsyncService {

    /**
     * <pre>
     * AllocateNonce reserves the lowest RECYCLABLE nonce of a submitter, or its next one. The same
     * request_id always returns the same reservation.
     * </pre>
     */
    default void allocateNonce(dev.fencepost.v1.AllocateNonceRequest request,
        io.grpc.stub.StreamObserver<dev.fencepost.v1.AllocateNonceResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getAllocateNonceMethod(), responseObserver);
    }

    /**
     * <pre>
     * RecordNonceHash records that a transaction with this hash was signed for the nonce, before or
     * after it was sent. The nonce becomes PENDING, and is never reserved again. Reports are accepted
     * at any time, also after the reservation has expired.
     * </pre>
     */
    default void recordNonceHash(dev.fencepost.v1.RecordNonceHashRequest request,
        io.grpc.stub.StreamObserver<dev.fencepost.v1.RecordNonceHashResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getRecordNonceHashMethod(), responseObserver);
    }

    /**
     * <pre>
     * ReleaseNonce gives a nonce back for which its holder has never signed a transaction, and never
     * will. It becomes RECYCLABLE.
     * </pre>
     */
    default void releaseNonce(dev.fencepost.v1.ReleaseNonceRequest request,
        io.grpc.stub.StreamObserver<dev.fencepost.v1.ReleaseNonceResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getReleaseNonceMethod(), responseObserver);
    }

    /**
     * <pre>
     * QuarantineNonce ends a reservation whose nonce may have been used. It becomes PENDING.
     * </pre>
     */
    default void quarantineNonce(dev.fencepost.v1.QuarantineNonceRequest request,
        io.grpc.stub.StreamObserver<dev.fencepost.v1.QuarantineNonceResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getQuarantineNonceMethod(), responseObserver);
    }

    /**
     * <pre>
     * ExtendReservation lets a reservation that has not expired last for ttl from now.
     * </pre>
     */
    default void extendReservation(dev.fencepost.v1.ExtendReservationRequest request,
        io.grpc.stub.StreamObserver<dev.fencepost.v1.ExtendReservationResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getExtendReservationMethod(), responseObserver);
    }

    /**
     * <pre>
     * SubmitSigned has Fencepost broadcast a signed transaction for a reserved nonce, and track it to
     * finality as any other: see GetTx and WatchTx. The bytes are recorded before they are sent.
     * Another transaction for the same nonce, with the same payload or none, replaces the first.
     * </pre>
     */
    default void submitSigned(dev.fencepost.v1.SubmitSignedRequest request,
        io.grpc.stub.StreamObserver<dev.fencepost.v1.SubmitSignedResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getSubmitSignedMethod(), responseObserver);
    }

    /**
     * <pre>
     * GetNonce returns one nonce, by its reservation or by submitter and number.
     * </pre>
     */
    default void getNonce(dev.fencepost.v1.GetNonceRequest request,
        io.grpc.stub.StreamObserver<dev.fencepost.v1.GetNonceResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getGetNonceMethod(), responseObserver);
    }

    /**
     * <pre>
     * ListNonces returns pages of the nonces of a submitter, highest first.
     * </pre>
     */
    default void listNonces(dev.fencepost.v1.ListNoncesRequest request,
        io.grpc.stub.StreamObserver<dev.fencepost.v1.ListNoncesResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getListNoncesMethod(), responseObserver);
    }

    /**
     * <pre>
     * ResolveNonce is an operator's decision on a PENDING nonce.
     * </pre>
     */
    default void resolveNonce(dev.fencepost.v1.ResolveNonceRequest request,
        io.grpc.stub.StreamObserver<dev.fencepost.v1.ResolveNonceResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getResolveNonceMethod(), responseObserver);
    }
  }

  /**
   * Base class for the server implementation of the service NonceService.
   * <pre>
   * NonceService reserves nonces of submitters in mode EXTERNAL, for clients that sign transactions
   * themselves. It is off by default (nonce_api.enabled), and requires an operator, or a caller with
   * the right nonces. All calls may be repeated.
   * No nonce is reserved twice while signed bytes for it may exist. A reservation that expires, or
   * whose client reports nothing, stays PENDING until the chain shows that its nonce was used, its
   * holder releases it as never signed, or an operator decides.
   * </pre>
   */
  public static abstract class NonceServiceImplBase
      implements io.grpc.BindableService, AsyncService {

    @java.lang.Override public final io.grpc.ServerServiceDefinition bindService() {
      return NonceServiceGrpc.bindService(this);
    }
  }

  /**
   * A stub to allow clients to do asynchronous rpc calls to service NonceService.
   * <pre>
   * NonceService reserves nonces of submitters in mode EXTERNAL, for clients that sign transactions
   * themselves. It is off by default (nonce_api.enabled), and requires an operator, or a caller with
   * the right nonces. All calls may be repeated.
   * No nonce is reserved twice while signed bytes for it may exist. A reservation that expires, or
   * whose client reports nothing, stays PENDING until the chain shows that its nonce was used, its
   * holder releases it as never signed, or an operator decides.
   * </pre>
   */
  public static final class NonceServiceStub
      extends io.grpc.stub.AbstractAsyncStub<NonceServiceStub> {
    private NonceServiceStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected NonceServiceStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new NonceServiceStub(channel, callOptions);
    }

    /**
     * <pre>
     * AllocateNonce reserves the lowest RECYCLABLE nonce of a submitter, or its next one. The same
     * request_id always returns the same reservation.
     * </pre>
     */
    public void allocateNonce(dev.fencepost.v1.AllocateNonceRequest request,
        io.grpc.stub.StreamObserver<dev.fencepost.v1.AllocateNonceResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getAllocateNonceMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * RecordNonceHash records that a transaction with this hash was signed for the nonce, before or
     * after it was sent. The nonce becomes PENDING, and is never reserved again. Reports are accepted
     * at any time, also after the reservation has expired.
     * </pre>
     */
    public void recordNonceHash(dev.fencepost.v1.RecordNonceHashRequest request,
        io.grpc.stub.StreamObserver<dev.fencepost.v1.RecordNonceHashResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getRecordNonceHashMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * ReleaseNonce gives a nonce back for which its holder has never signed a transaction, and never
     * will. It becomes RECYCLABLE.
     * </pre>
     */
    public void releaseNonce(dev.fencepost.v1.ReleaseNonceRequest request,
        io.grpc.stub.StreamObserver<dev.fencepost.v1.ReleaseNonceResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getReleaseNonceMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * QuarantineNonce ends a reservation whose nonce may have been used. It becomes PENDING.
     * </pre>
     */
    public void quarantineNonce(dev.fencepost.v1.QuarantineNonceRequest request,
        io.grpc.stub.StreamObserver<dev.fencepost.v1.QuarantineNonceResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getQuarantineNonceMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * ExtendReservation lets a reservation that has not expired last for ttl from now.
     * </pre>
     */
    public void extendReservation(dev.fencepost.v1.ExtendReservationRequest request,
        io.grpc.stub.StreamObserver<dev.fencepost.v1.ExtendReservationResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getExtendReservationMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * SubmitSigned has Fencepost broadcast a signed transaction for a reserved nonce, and track it to
     * finality as any other: see GetTx and WatchTx. The bytes are recorded before they are sent.
     * Another transaction for the same nonce, with the same payload or none, replaces the first.
     * </pre>
     */
    public void submitSigned(dev.fencepost.v1.SubmitSignedRequest request,
        io.grpc.stub.StreamObserver<dev.fencepost.v1.SubmitSignedResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getSubmitSignedMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * GetNonce returns one nonce, by its reservation or by submitter and number.
     * </pre>
     */
    public void getNonce(dev.fencepost.v1.GetNonceRequest request,
        io.grpc.stub.StreamObserver<dev.fencepost.v1.GetNonceResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getGetNonceMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * ListNonces returns pages of the nonces of a submitter, highest first.
     * </pre>
     */
    public void listNonces(dev.fencepost.v1.ListNoncesRequest request,
        io.grpc.stub.StreamObserver<dev.fencepost.v1.ListNoncesResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getListNoncesMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * ResolveNonce is an operator's decision on a PENDING nonce.
     * </pre>
     */
    public void resolveNonce(dev.fencepost.v1.ResolveNonceRequest request,
        io.grpc.stub.StreamObserver<dev.fencepost.v1.ResolveNonceResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getResolveNonceMethod(), getCallOptions()), request, responseObserver);
    }
  }

  /**
   * A stub to allow clients to do synchronous rpc calls to service NonceService.
   * <pre>
   * NonceService reserves nonces of submitters in mode EXTERNAL, for clients that sign transactions
   * themselves. It is off by default (nonce_api.enabled), and requires an operator, or a caller with
   * the right nonces. All calls may be repeated.
   * No nonce is reserved twice while signed bytes for it may exist. A reservation that expires, or
   * whose client reports nothing, stays PENDING until the chain shows that its nonce was used, its
   * holder releases it as never signed, or an operator decides.
   * </pre>
   */
  public static final class NonceServiceBlockingV2Stub
      extends io.grpc.stub.AbstractBlockingStub<NonceServiceBlockingV2Stub> {
    private NonceServiceBlockingV2Stub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected NonceServiceBlockingV2Stub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new NonceServiceBlockingV2Stub(channel, callOptions);
    }

    /**
     * <pre>
     * AllocateNonce reserves the lowest RECYCLABLE nonce of a submitter, or its next one. The same
     * request_id always returns the same reservation.
     * </pre>
     */
    public dev.fencepost.v1.AllocateNonceResponse allocateNonce(dev.fencepost.v1.AllocateNonceRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getAllocateNonceMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * RecordNonceHash records that a transaction with this hash was signed for the nonce, before or
     * after it was sent. The nonce becomes PENDING, and is never reserved again. Reports are accepted
     * at any time, also after the reservation has expired.
     * </pre>
     */
    public dev.fencepost.v1.RecordNonceHashResponse recordNonceHash(dev.fencepost.v1.RecordNonceHashRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getRecordNonceHashMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * ReleaseNonce gives a nonce back for which its holder has never signed a transaction, and never
     * will. It becomes RECYCLABLE.
     * </pre>
     */
    public dev.fencepost.v1.ReleaseNonceResponse releaseNonce(dev.fencepost.v1.ReleaseNonceRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getReleaseNonceMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * QuarantineNonce ends a reservation whose nonce may have been used. It becomes PENDING.
     * </pre>
     */
    public dev.fencepost.v1.QuarantineNonceResponse quarantineNonce(dev.fencepost.v1.QuarantineNonceRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getQuarantineNonceMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * ExtendReservation lets a reservation that has not expired last for ttl from now.
     * </pre>
     */
    public dev.fencepost.v1.ExtendReservationResponse extendReservation(dev.fencepost.v1.ExtendReservationRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getExtendReservationMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * SubmitSigned has Fencepost broadcast a signed transaction for a reserved nonce, and track it to
     * finality as any other: see GetTx and WatchTx. The bytes are recorded before they are sent.
     * Another transaction for the same nonce, with the same payload or none, replaces the first.
     * </pre>
     */
    public dev.fencepost.v1.SubmitSignedResponse submitSigned(dev.fencepost.v1.SubmitSignedRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getSubmitSignedMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * GetNonce returns one nonce, by its reservation or by submitter and number.
     * </pre>
     */
    public dev.fencepost.v1.GetNonceResponse getNonce(dev.fencepost.v1.GetNonceRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getGetNonceMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * ListNonces returns pages of the nonces of a submitter, highest first.
     * </pre>
     */
    public dev.fencepost.v1.ListNoncesResponse listNonces(dev.fencepost.v1.ListNoncesRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getListNoncesMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * ResolveNonce is an operator's decision on a PENDING nonce.
     * </pre>
     */
    public dev.fencepost.v1.ResolveNonceResponse resolveNonce(dev.fencepost.v1.ResolveNonceRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getResolveNonceMethod(), getCallOptions(), request);
    }
  }

  /**
   * A stub to allow clients to do limited synchronous rpc calls to service NonceService.
   * <pre>
   * NonceService reserves nonces of submitters in mode EXTERNAL, for clients that sign transactions
   * themselves. It is off by default (nonce_api.enabled), and requires an operator, or a caller with
   * the right nonces. All calls may be repeated.
   * No nonce is reserved twice while signed bytes for it may exist. A reservation that expires, or
   * whose client reports nothing, stays PENDING until the chain shows that its nonce was used, its
   * holder releases it as never signed, or an operator decides.
   * </pre>
   */
  public static final class NonceServiceBlockingStub
      extends io.grpc.stub.AbstractBlockingStub<NonceServiceBlockingStub> {
    private NonceServiceBlockingStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected NonceServiceBlockingStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new NonceServiceBlockingStub(channel, callOptions);
    }

    /**
     * <pre>
     * AllocateNonce reserves the lowest RECYCLABLE nonce of a submitter, or its next one. The same
     * request_id always returns the same reservation.
     * </pre>
     */
    public dev.fencepost.v1.AllocateNonceResponse allocateNonce(dev.fencepost.v1.AllocateNonceRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getAllocateNonceMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * RecordNonceHash records that a transaction with this hash was signed for the nonce, before or
     * after it was sent. The nonce becomes PENDING, and is never reserved again. Reports are accepted
     * at any time, also after the reservation has expired.
     * </pre>
     */
    public dev.fencepost.v1.RecordNonceHashResponse recordNonceHash(dev.fencepost.v1.RecordNonceHashRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getRecordNonceHashMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * ReleaseNonce gives a nonce back for which its holder has never signed a transaction, and never
     * will. It becomes RECYCLABLE.
     * </pre>
     */
    public dev.fencepost.v1.ReleaseNonceResponse releaseNonce(dev.fencepost.v1.ReleaseNonceRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getReleaseNonceMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * QuarantineNonce ends a reservation whose nonce may have been used. It becomes PENDING.
     * </pre>
     */
    public dev.fencepost.v1.QuarantineNonceResponse quarantineNonce(dev.fencepost.v1.QuarantineNonceRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getQuarantineNonceMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * ExtendReservation lets a reservation that has not expired last for ttl from now.
     * </pre>
     */
    public dev.fencepost.v1.ExtendReservationResponse extendReservation(dev.fencepost.v1.ExtendReservationRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getExtendReservationMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * SubmitSigned has Fencepost broadcast a signed transaction for a reserved nonce, and track it to
     * finality as any other: see GetTx and WatchTx. The bytes are recorded before they are sent.
     * Another transaction for the same nonce, with the same payload or none, replaces the first.
     * </pre>
     */
    public dev.fencepost.v1.SubmitSignedResponse submitSigned(dev.fencepost.v1.SubmitSignedRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getSubmitSignedMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * GetNonce returns one nonce, by its reservation or by submitter and number.
     * </pre>
     */
    public dev.fencepost.v1.GetNonceResponse getNonce(dev.fencepost.v1.GetNonceRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getGetNonceMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * ListNonces returns pages of the nonces of a submitter, highest first.
     * </pre>
     */
    public dev.fencepost.v1.ListNoncesResponse listNonces(dev.fencepost.v1.ListNoncesRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getListNoncesMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * ResolveNonce is an operator's decision on a PENDING nonce.
     * </pre>
     */
    public dev.fencepost.v1.ResolveNonceResponse resolveNonce(dev.fencepost.v1.ResolveNonceRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getResolveNonceMethod(), getCallOptions(), request);
    }
  }

  /**
   * A stub to allow clients to do ListenableFuture-style rpc calls to service NonceService.
   * <pre>
   * NonceService reserves nonces of submitters in mode EXTERNAL, for clients that sign transactions
   * themselves. It is off by default (nonce_api.enabled), and requires an operator, or a caller with
   * the right nonces. All calls may be repeated.
   * No nonce is reserved twice while signed bytes for it may exist. A reservation that expires, or
   * whose client reports nothing, stays PENDING until the chain shows that its nonce was used, its
   * holder releases it as never signed, or an operator decides.
   * </pre>
   */
  public static final class NonceServiceFutureStub
      extends io.grpc.stub.AbstractFutureStub<NonceServiceFutureStub> {
    private NonceServiceFutureStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected NonceServiceFutureStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new NonceServiceFutureStub(channel, callOptions);
    }

    /**
     * <pre>
     * AllocateNonce reserves the lowest RECYCLABLE nonce of a submitter, or its next one. The same
     * request_id always returns the same reservation.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.fencepost.v1.AllocateNonceResponse> allocateNonce(
        dev.fencepost.v1.AllocateNonceRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getAllocateNonceMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * RecordNonceHash records that a transaction with this hash was signed for the nonce, before or
     * after it was sent. The nonce becomes PENDING, and is never reserved again. Reports are accepted
     * at any time, also after the reservation has expired.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.fencepost.v1.RecordNonceHashResponse> recordNonceHash(
        dev.fencepost.v1.RecordNonceHashRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getRecordNonceHashMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * ReleaseNonce gives a nonce back for which its holder has never signed a transaction, and never
     * will. It becomes RECYCLABLE.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.fencepost.v1.ReleaseNonceResponse> releaseNonce(
        dev.fencepost.v1.ReleaseNonceRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getReleaseNonceMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * QuarantineNonce ends a reservation whose nonce may have been used. It becomes PENDING.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.fencepost.v1.QuarantineNonceResponse> quarantineNonce(
        dev.fencepost.v1.QuarantineNonceRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getQuarantineNonceMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * ExtendReservation lets a reservation that has not expired last for ttl from now.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.fencepost.v1.ExtendReservationResponse> extendReservation(
        dev.fencepost.v1.ExtendReservationRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getExtendReservationMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * SubmitSigned has Fencepost broadcast a signed transaction for a reserved nonce, and track it to
     * finality as any other: see GetTx and WatchTx. The bytes are recorded before they are sent.
     * Another transaction for the same nonce, with the same payload or none, replaces the first.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.fencepost.v1.SubmitSignedResponse> submitSigned(
        dev.fencepost.v1.SubmitSignedRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getSubmitSignedMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * GetNonce returns one nonce, by its reservation or by submitter and number.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.fencepost.v1.GetNonceResponse> getNonce(
        dev.fencepost.v1.GetNonceRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getGetNonceMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * ListNonces returns pages of the nonces of a submitter, highest first.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.fencepost.v1.ListNoncesResponse> listNonces(
        dev.fencepost.v1.ListNoncesRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getListNoncesMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * ResolveNonce is an operator's decision on a PENDING nonce.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.fencepost.v1.ResolveNonceResponse> resolveNonce(
        dev.fencepost.v1.ResolveNonceRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getResolveNonceMethod(), getCallOptions()), request);
    }
  }

  private static final int METHODID_ALLOCATE_NONCE = 0;
  private static final int METHODID_RECORD_NONCE_HASH = 1;
  private static final int METHODID_RELEASE_NONCE = 2;
  private static final int METHODID_QUARANTINE_NONCE = 3;
  private static final int METHODID_EXTEND_RESERVATION = 4;
  private static final int METHODID_SUBMIT_SIGNED = 5;
  private static final int METHODID_GET_NONCE = 6;
  private static final int METHODID_LIST_NONCES = 7;
  private static final int METHODID_RESOLVE_NONCE = 8;

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
        case METHODID_ALLOCATE_NONCE:
          serviceImpl.allocateNonce((dev.fencepost.v1.AllocateNonceRequest) request,
              (io.grpc.stub.StreamObserver<dev.fencepost.v1.AllocateNonceResponse>) responseObserver);
          break;
        case METHODID_RECORD_NONCE_HASH:
          serviceImpl.recordNonceHash((dev.fencepost.v1.RecordNonceHashRequest) request,
              (io.grpc.stub.StreamObserver<dev.fencepost.v1.RecordNonceHashResponse>) responseObserver);
          break;
        case METHODID_RELEASE_NONCE:
          serviceImpl.releaseNonce((dev.fencepost.v1.ReleaseNonceRequest) request,
              (io.grpc.stub.StreamObserver<dev.fencepost.v1.ReleaseNonceResponse>) responseObserver);
          break;
        case METHODID_QUARANTINE_NONCE:
          serviceImpl.quarantineNonce((dev.fencepost.v1.QuarantineNonceRequest) request,
              (io.grpc.stub.StreamObserver<dev.fencepost.v1.QuarantineNonceResponse>) responseObserver);
          break;
        case METHODID_EXTEND_RESERVATION:
          serviceImpl.extendReservation((dev.fencepost.v1.ExtendReservationRequest) request,
              (io.grpc.stub.StreamObserver<dev.fencepost.v1.ExtendReservationResponse>) responseObserver);
          break;
        case METHODID_SUBMIT_SIGNED:
          serviceImpl.submitSigned((dev.fencepost.v1.SubmitSignedRequest) request,
              (io.grpc.stub.StreamObserver<dev.fencepost.v1.SubmitSignedResponse>) responseObserver);
          break;
        case METHODID_GET_NONCE:
          serviceImpl.getNonce((dev.fencepost.v1.GetNonceRequest) request,
              (io.grpc.stub.StreamObserver<dev.fencepost.v1.GetNonceResponse>) responseObserver);
          break;
        case METHODID_LIST_NONCES:
          serviceImpl.listNonces((dev.fencepost.v1.ListNoncesRequest) request,
              (io.grpc.stub.StreamObserver<dev.fencepost.v1.ListNoncesResponse>) responseObserver);
          break;
        case METHODID_RESOLVE_NONCE:
          serviceImpl.resolveNonce((dev.fencepost.v1.ResolveNonceRequest) request,
              (io.grpc.stub.StreamObserver<dev.fencepost.v1.ResolveNonceResponse>) responseObserver);
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
          getAllocateNonceMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.fencepost.v1.AllocateNonceRequest,
              dev.fencepost.v1.AllocateNonceResponse>(
                service, METHODID_ALLOCATE_NONCE)))
        .addMethod(
          getRecordNonceHashMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.fencepost.v1.RecordNonceHashRequest,
              dev.fencepost.v1.RecordNonceHashResponse>(
                service, METHODID_RECORD_NONCE_HASH)))
        .addMethod(
          getReleaseNonceMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.fencepost.v1.ReleaseNonceRequest,
              dev.fencepost.v1.ReleaseNonceResponse>(
                service, METHODID_RELEASE_NONCE)))
        .addMethod(
          getQuarantineNonceMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.fencepost.v1.QuarantineNonceRequest,
              dev.fencepost.v1.QuarantineNonceResponse>(
                service, METHODID_QUARANTINE_NONCE)))
        .addMethod(
          getExtendReservationMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.fencepost.v1.ExtendReservationRequest,
              dev.fencepost.v1.ExtendReservationResponse>(
                service, METHODID_EXTEND_RESERVATION)))
        .addMethod(
          getSubmitSignedMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.fencepost.v1.SubmitSignedRequest,
              dev.fencepost.v1.SubmitSignedResponse>(
                service, METHODID_SUBMIT_SIGNED)))
        .addMethod(
          getGetNonceMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.fencepost.v1.GetNonceRequest,
              dev.fencepost.v1.GetNonceResponse>(
                service, METHODID_GET_NONCE)))
        .addMethod(
          getListNoncesMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.fencepost.v1.ListNoncesRequest,
              dev.fencepost.v1.ListNoncesResponse>(
                service, METHODID_LIST_NONCES)))
        .addMethod(
          getResolveNonceMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.fencepost.v1.ResolveNonceRequest,
              dev.fencepost.v1.ResolveNonceResponse>(
                service, METHODID_RESOLVE_NONCE)))
        .build();
  }

  private static abstract class NonceServiceBaseDescriptorSupplier
      implements io.grpc.protobuf.ProtoFileDescriptorSupplier, io.grpc.protobuf.ProtoServiceDescriptorSupplier {
    NonceServiceBaseDescriptorSupplier() {}

    @java.lang.Override
    public com.google.protobuf.Descriptors.FileDescriptor getFileDescriptor() {
      return dev.fencepost.v1.NonceOuterClass.getDescriptor();
    }

    @java.lang.Override
    public com.google.protobuf.Descriptors.ServiceDescriptor getServiceDescriptor() {
      return getFileDescriptor().findServiceByName("NonceService");
    }
  }

  private static final class NonceServiceFileDescriptorSupplier
      extends NonceServiceBaseDescriptorSupplier {
    NonceServiceFileDescriptorSupplier() {}
  }

  private static final class NonceServiceMethodDescriptorSupplier
      extends NonceServiceBaseDescriptorSupplier
      implements io.grpc.protobuf.ProtoMethodDescriptorSupplier {
    private final java.lang.String methodName;

    NonceServiceMethodDescriptorSupplier(java.lang.String methodName) {
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
      synchronized (NonceServiceGrpc.class) {
        result = serviceDescriptor;
        if (result == null) {
          serviceDescriptor = result = io.grpc.ServiceDescriptor.newBuilder(SERVICE_NAME)
              .setSchemaDescriptor(new NonceServiceFileDescriptorSupplier())
              .addMethod(getAllocateNonceMethod())
              .addMethod(getRecordNonceHashMethod())
              .addMethod(getReleaseNonceMethod())
              .addMethod(getQuarantineNonceMethod())
              .addMethod(getExtendReservationMethod())
              .addMethod(getSubmitSignedMethod())
              .addMethod(getGetNonceMethod())
              .addMethod(getListNoncesMethod())
              .addMethod(getResolveNonceMethod())
              .build();
        }
      }
    }
    return result;
  }
}
