package dev.fencepost.v1;

import static io.grpc.MethodDescriptor.generateFullMethodName;

/**
 * <pre>
 * SubmitterService manages the accounts that Fencepost sends from. It is for operators.
 * </pre>
 */
@io.grpc.stub.annotations.GrpcGenerated
public final class SubmitterServiceGrpc {

  private SubmitterServiceGrpc() {}

  public static final java.lang.String SERVICE_NAME = "fencepost.v1.SubmitterService";

  // Static method descriptors that strictly reflect the proto.
  private static volatile io.grpc.MethodDescriptor<dev.fencepost.v1.RegisterSubmitterRequest,
      dev.fencepost.v1.RegisterSubmitterResponse> getRegisterSubmitterMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "RegisterSubmitter",
      requestType = dev.fencepost.v1.RegisterSubmitterRequest.class,
      responseType = dev.fencepost.v1.RegisterSubmitterResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.fencepost.v1.RegisterSubmitterRequest,
      dev.fencepost.v1.RegisterSubmitterResponse> getRegisterSubmitterMethod() {
    io.grpc.MethodDescriptor<dev.fencepost.v1.RegisterSubmitterRequest, dev.fencepost.v1.RegisterSubmitterResponse> getRegisterSubmitterMethod;
    if ((getRegisterSubmitterMethod = SubmitterServiceGrpc.getRegisterSubmitterMethod) == null) {
      synchronized (SubmitterServiceGrpc.class) {
        if ((getRegisterSubmitterMethod = SubmitterServiceGrpc.getRegisterSubmitterMethod) == null) {
          SubmitterServiceGrpc.getRegisterSubmitterMethod = getRegisterSubmitterMethod =
              io.grpc.MethodDescriptor.<dev.fencepost.v1.RegisterSubmitterRequest, dev.fencepost.v1.RegisterSubmitterResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "RegisterSubmitter"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.fencepost.v1.RegisterSubmitterRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.fencepost.v1.RegisterSubmitterResponse.getDefaultInstance()))
              .setSchemaDescriptor(new SubmitterServiceMethodDescriptorSupplier("RegisterSubmitter"))
              .build();
        }
      }
    }
    return getRegisterSubmitterMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.fencepost.v1.GetSubmitterRequest,
      dev.fencepost.v1.GetSubmitterResponse> getGetSubmitterMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "GetSubmitter",
      requestType = dev.fencepost.v1.GetSubmitterRequest.class,
      responseType = dev.fencepost.v1.GetSubmitterResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.fencepost.v1.GetSubmitterRequest,
      dev.fencepost.v1.GetSubmitterResponse> getGetSubmitterMethod() {
    io.grpc.MethodDescriptor<dev.fencepost.v1.GetSubmitterRequest, dev.fencepost.v1.GetSubmitterResponse> getGetSubmitterMethod;
    if ((getGetSubmitterMethod = SubmitterServiceGrpc.getGetSubmitterMethod) == null) {
      synchronized (SubmitterServiceGrpc.class) {
        if ((getGetSubmitterMethod = SubmitterServiceGrpc.getGetSubmitterMethod) == null) {
          SubmitterServiceGrpc.getGetSubmitterMethod = getGetSubmitterMethod =
              io.grpc.MethodDescriptor.<dev.fencepost.v1.GetSubmitterRequest, dev.fencepost.v1.GetSubmitterResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "GetSubmitter"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.fencepost.v1.GetSubmitterRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.fencepost.v1.GetSubmitterResponse.getDefaultInstance()))
              .setSchemaDescriptor(new SubmitterServiceMethodDescriptorSupplier("GetSubmitter"))
              .build();
        }
      }
    }
    return getGetSubmitterMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.fencepost.v1.ListSubmittersRequest,
      dev.fencepost.v1.ListSubmittersResponse> getListSubmittersMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "ListSubmitters",
      requestType = dev.fencepost.v1.ListSubmittersRequest.class,
      responseType = dev.fencepost.v1.ListSubmittersResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.fencepost.v1.ListSubmittersRequest,
      dev.fencepost.v1.ListSubmittersResponse> getListSubmittersMethod() {
    io.grpc.MethodDescriptor<dev.fencepost.v1.ListSubmittersRequest, dev.fencepost.v1.ListSubmittersResponse> getListSubmittersMethod;
    if ((getListSubmittersMethod = SubmitterServiceGrpc.getListSubmittersMethod) == null) {
      synchronized (SubmitterServiceGrpc.class) {
        if ((getListSubmittersMethod = SubmitterServiceGrpc.getListSubmittersMethod) == null) {
          SubmitterServiceGrpc.getListSubmittersMethod = getListSubmittersMethod =
              io.grpc.MethodDescriptor.<dev.fencepost.v1.ListSubmittersRequest, dev.fencepost.v1.ListSubmittersResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "ListSubmitters"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.fencepost.v1.ListSubmittersRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.fencepost.v1.ListSubmittersResponse.getDefaultInstance()))
              .setSchemaDescriptor(new SubmitterServiceMethodDescriptorSupplier("ListSubmitters"))
              .build();
        }
      }
    }
    return getListSubmittersMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.fencepost.v1.UpdateSubmitterRequest,
      dev.fencepost.v1.UpdateSubmitterResponse> getUpdateSubmitterMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "UpdateSubmitter",
      requestType = dev.fencepost.v1.UpdateSubmitterRequest.class,
      responseType = dev.fencepost.v1.UpdateSubmitterResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.fencepost.v1.UpdateSubmitterRequest,
      dev.fencepost.v1.UpdateSubmitterResponse> getUpdateSubmitterMethod() {
    io.grpc.MethodDescriptor<dev.fencepost.v1.UpdateSubmitterRequest, dev.fencepost.v1.UpdateSubmitterResponse> getUpdateSubmitterMethod;
    if ((getUpdateSubmitterMethod = SubmitterServiceGrpc.getUpdateSubmitterMethod) == null) {
      synchronized (SubmitterServiceGrpc.class) {
        if ((getUpdateSubmitterMethod = SubmitterServiceGrpc.getUpdateSubmitterMethod) == null) {
          SubmitterServiceGrpc.getUpdateSubmitterMethod = getUpdateSubmitterMethod =
              io.grpc.MethodDescriptor.<dev.fencepost.v1.UpdateSubmitterRequest, dev.fencepost.v1.UpdateSubmitterResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "UpdateSubmitter"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.fencepost.v1.UpdateSubmitterRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.fencepost.v1.UpdateSubmitterResponse.getDefaultInstance()))
              .setSchemaDescriptor(new SubmitterServiceMethodDescriptorSupplier("UpdateSubmitter"))
              .build();
        }
      }
    }
    return getUpdateSubmitterMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.fencepost.v1.PauseSubmitterRequest,
      dev.fencepost.v1.PauseSubmitterResponse> getPauseSubmitterMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "PauseSubmitter",
      requestType = dev.fencepost.v1.PauseSubmitterRequest.class,
      responseType = dev.fencepost.v1.PauseSubmitterResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.fencepost.v1.PauseSubmitterRequest,
      dev.fencepost.v1.PauseSubmitterResponse> getPauseSubmitterMethod() {
    io.grpc.MethodDescriptor<dev.fencepost.v1.PauseSubmitterRequest, dev.fencepost.v1.PauseSubmitterResponse> getPauseSubmitterMethod;
    if ((getPauseSubmitterMethod = SubmitterServiceGrpc.getPauseSubmitterMethod) == null) {
      synchronized (SubmitterServiceGrpc.class) {
        if ((getPauseSubmitterMethod = SubmitterServiceGrpc.getPauseSubmitterMethod) == null) {
          SubmitterServiceGrpc.getPauseSubmitterMethod = getPauseSubmitterMethod =
              io.grpc.MethodDescriptor.<dev.fencepost.v1.PauseSubmitterRequest, dev.fencepost.v1.PauseSubmitterResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "PauseSubmitter"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.fencepost.v1.PauseSubmitterRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.fencepost.v1.PauseSubmitterResponse.getDefaultInstance()))
              .setSchemaDescriptor(new SubmitterServiceMethodDescriptorSupplier("PauseSubmitter"))
              .build();
        }
      }
    }
    return getPauseSubmitterMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.fencepost.v1.ResumeSubmitterRequest,
      dev.fencepost.v1.ResumeSubmitterResponse> getResumeSubmitterMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "ResumeSubmitter",
      requestType = dev.fencepost.v1.ResumeSubmitterRequest.class,
      responseType = dev.fencepost.v1.ResumeSubmitterResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.fencepost.v1.ResumeSubmitterRequest,
      dev.fencepost.v1.ResumeSubmitterResponse> getResumeSubmitterMethod() {
    io.grpc.MethodDescriptor<dev.fencepost.v1.ResumeSubmitterRequest, dev.fencepost.v1.ResumeSubmitterResponse> getResumeSubmitterMethod;
    if ((getResumeSubmitterMethod = SubmitterServiceGrpc.getResumeSubmitterMethod) == null) {
      synchronized (SubmitterServiceGrpc.class) {
        if ((getResumeSubmitterMethod = SubmitterServiceGrpc.getResumeSubmitterMethod) == null) {
          SubmitterServiceGrpc.getResumeSubmitterMethod = getResumeSubmitterMethod =
              io.grpc.MethodDescriptor.<dev.fencepost.v1.ResumeSubmitterRequest, dev.fencepost.v1.ResumeSubmitterResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "ResumeSubmitter"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.fencepost.v1.ResumeSubmitterRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.fencepost.v1.ResumeSubmitterResponse.getDefaultInstance()))
              .setSchemaDescriptor(new SubmitterServiceMethodDescriptorSupplier("ResumeSubmitter"))
              .build();
        }
      }
    }
    return getResumeSubmitterMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.fencepost.v1.ProtectSubmitterRequest,
      dev.fencepost.v1.ProtectSubmitterResponse> getProtectSubmitterMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "ProtectSubmitter",
      requestType = dev.fencepost.v1.ProtectSubmitterRequest.class,
      responseType = dev.fencepost.v1.ProtectSubmitterResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.fencepost.v1.ProtectSubmitterRequest,
      dev.fencepost.v1.ProtectSubmitterResponse> getProtectSubmitterMethod() {
    io.grpc.MethodDescriptor<dev.fencepost.v1.ProtectSubmitterRequest, dev.fencepost.v1.ProtectSubmitterResponse> getProtectSubmitterMethod;
    if ((getProtectSubmitterMethod = SubmitterServiceGrpc.getProtectSubmitterMethod) == null) {
      synchronized (SubmitterServiceGrpc.class) {
        if ((getProtectSubmitterMethod = SubmitterServiceGrpc.getProtectSubmitterMethod) == null) {
          SubmitterServiceGrpc.getProtectSubmitterMethod = getProtectSubmitterMethod =
              io.grpc.MethodDescriptor.<dev.fencepost.v1.ProtectSubmitterRequest, dev.fencepost.v1.ProtectSubmitterResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "ProtectSubmitter"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.fencepost.v1.ProtectSubmitterRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.fencepost.v1.ProtectSubmitterResponse.getDefaultInstance()))
              .setSchemaDescriptor(new SubmitterServiceMethodDescriptorSupplier("ProtectSubmitter"))
              .build();
        }
      }
    }
    return getProtectSubmitterMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.fencepost.v1.ExitProtectRequest,
      dev.fencepost.v1.ExitProtectResponse> getExitProtectMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "ExitProtect",
      requestType = dev.fencepost.v1.ExitProtectRequest.class,
      responseType = dev.fencepost.v1.ExitProtectResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.fencepost.v1.ExitProtectRequest,
      dev.fencepost.v1.ExitProtectResponse> getExitProtectMethod() {
    io.grpc.MethodDescriptor<dev.fencepost.v1.ExitProtectRequest, dev.fencepost.v1.ExitProtectResponse> getExitProtectMethod;
    if ((getExitProtectMethod = SubmitterServiceGrpc.getExitProtectMethod) == null) {
      synchronized (SubmitterServiceGrpc.class) {
        if ((getExitProtectMethod = SubmitterServiceGrpc.getExitProtectMethod) == null) {
          SubmitterServiceGrpc.getExitProtectMethod = getExitProtectMethod =
              io.grpc.MethodDescriptor.<dev.fencepost.v1.ExitProtectRequest, dev.fencepost.v1.ExitProtectResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "ExitProtect"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.fencepost.v1.ExitProtectRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.fencepost.v1.ExitProtectResponse.getDefaultInstance()))
              .setSchemaDescriptor(new SubmitterServiceMethodDescriptorSupplier("ExitProtect"))
              .build();
        }
      }
    }
    return getExitProtectMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.fencepost.v1.ResolveStuckRequest,
      dev.fencepost.v1.ResolveStuckResponse> getResolveStuckMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "ResolveStuck",
      requestType = dev.fencepost.v1.ResolveStuckRequest.class,
      responseType = dev.fencepost.v1.ResolveStuckResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.fencepost.v1.ResolveStuckRequest,
      dev.fencepost.v1.ResolveStuckResponse> getResolveStuckMethod() {
    io.grpc.MethodDescriptor<dev.fencepost.v1.ResolveStuckRequest, dev.fencepost.v1.ResolveStuckResponse> getResolveStuckMethod;
    if ((getResolveStuckMethod = SubmitterServiceGrpc.getResolveStuckMethod) == null) {
      synchronized (SubmitterServiceGrpc.class) {
        if ((getResolveStuckMethod = SubmitterServiceGrpc.getResolveStuckMethod) == null) {
          SubmitterServiceGrpc.getResolveStuckMethod = getResolveStuckMethod =
              io.grpc.MethodDescriptor.<dev.fencepost.v1.ResolveStuckRequest, dev.fencepost.v1.ResolveStuckResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "ResolveStuck"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.fencepost.v1.ResolveStuckRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.fencepost.v1.ResolveStuckResponse.getDefaultInstance()))
              .setSchemaDescriptor(new SubmitterServiceMethodDescriptorSupplier("ResolveStuck"))
              .build();
        }
      }
    }
    return getResolveStuckMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.fencepost.v1.ListCommandsRequest,
      dev.fencepost.v1.ListCommandsResponse> getListCommandsMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "ListCommands",
      requestType = dev.fencepost.v1.ListCommandsRequest.class,
      responseType = dev.fencepost.v1.ListCommandsResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.fencepost.v1.ListCommandsRequest,
      dev.fencepost.v1.ListCommandsResponse> getListCommandsMethod() {
    io.grpc.MethodDescriptor<dev.fencepost.v1.ListCommandsRequest, dev.fencepost.v1.ListCommandsResponse> getListCommandsMethod;
    if ((getListCommandsMethod = SubmitterServiceGrpc.getListCommandsMethod) == null) {
      synchronized (SubmitterServiceGrpc.class) {
        if ((getListCommandsMethod = SubmitterServiceGrpc.getListCommandsMethod) == null) {
          SubmitterServiceGrpc.getListCommandsMethod = getListCommandsMethod =
              io.grpc.MethodDescriptor.<dev.fencepost.v1.ListCommandsRequest, dev.fencepost.v1.ListCommandsResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "ListCommands"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.fencepost.v1.ListCommandsRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.fencepost.v1.ListCommandsResponse.getDefaultInstance()))
              .setSchemaDescriptor(new SubmitterServiceMethodDescriptorSupplier("ListCommands"))
              .build();
        }
      }
    }
    return getListCommandsMethod;
  }

  /**
   * Creates a new async stub that supports all call types for the service
   */
  public static SubmitterServiceStub newStub(io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<SubmitterServiceStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<SubmitterServiceStub>() {
        @java.lang.Override
        public SubmitterServiceStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new SubmitterServiceStub(channel, callOptions);
        }
      };
    return SubmitterServiceStub.newStub(factory, channel);
  }

  /**
   * Creates a new blocking-style stub that supports all types of calls on the service
   */
  public static SubmitterServiceBlockingV2Stub newBlockingV2Stub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<SubmitterServiceBlockingV2Stub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<SubmitterServiceBlockingV2Stub>() {
        @java.lang.Override
        public SubmitterServiceBlockingV2Stub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new SubmitterServiceBlockingV2Stub(channel, callOptions);
        }
      };
    return SubmitterServiceBlockingV2Stub.newStub(factory, channel);
  }

  /**
   * Creates a new blocking-style stub that supports unary and streaming output calls on the service
   */
  public static SubmitterServiceBlockingStub newBlockingStub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<SubmitterServiceBlockingStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<SubmitterServiceBlockingStub>() {
        @java.lang.Override
        public SubmitterServiceBlockingStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new SubmitterServiceBlockingStub(channel, callOptions);
        }
      };
    return SubmitterServiceBlockingStub.newStub(factory, channel);
  }

  /**
   * Creates a new ListenableFuture-style stub that supports unary calls on the service
   */
  public static SubmitterServiceFutureStub newFutureStub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<SubmitterServiceFutureStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<SubmitterServiceFutureStub>() {
        @java.lang.Override
        public SubmitterServiceFutureStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new SubmitterServiceFutureStub(channel, callOptions);
        }
      };
    return SubmitterServiceFutureStub.newStub(factory, channel);
  }

  /**
   * <pre>
   * SubmitterService manages the accounts that Fencepost sends from. It is for operators.
   * </pre>
   */
  public interface AsyncService {

    /**
     * <pre>
     * RegisterSubmitter registers an account. Repeating the call returns the registered submitter; a
     * call with other settings is rejected with ALREADY_EXISTS.
     * </pre>
     */
    default void registerSubmitter(dev.fencepost.v1.RegisterSubmitterRequest request,
        io.grpc.stub.StreamObserver<dev.fencepost.v1.RegisterSubmitterResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getRegisterSubmitterMethod(), responseObserver);
    }

    /**
     * <pre>
     * GetSubmitter returns owner, next nonce, queue and status of one submitter.
     * </pre>
     */
    default void getSubmitter(dev.fencepost.v1.GetSubmitterRequest request,
        io.grpc.stub.StreamObserver<dev.fencepost.v1.GetSubmitterResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getGetSubmitterMethod(), responseObserver);
    }

    /**
     * <pre>
     * ListSubmitters returns pages of submitters, ordered by name.
     * </pre>
     */
    default void listSubmitters(dev.fencepost.v1.ListSubmittersRequest request,
        io.grpc.stub.StreamObserver<dev.fencepost.v1.ListSubmittersResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getListSubmittersMethod(), responseObserver);
    }

    /**
     * <pre>
     * UpdateSubmitter changes the policies named by update_mask. Returns once the owner has applied
     * them.
     * </pre>
     */
    default void updateSubmitter(dev.fencepost.v1.UpdateSubmitterRequest request,
        io.grpc.stub.StreamObserver<dev.fencepost.v1.UpdateSubmitterResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getUpdateSubmitterMethod(), responseObserver);
    }

    /**
     * <pre>
     * PauseSubmitter stops the assignment of new nonces. In-flight transactions are tracked to their
     * outcome; queued ones wait. CreateTx returns FAILED_PRECONDITION (SUBMITTER_PAUSED) until
     * ResumeSubmitter. Returns once the owner has applied it. Idempotent.
     * </pre>
     */
    default void pauseSubmitter(dev.fencepost.v1.PauseSubmitterRequest request,
        io.grpc.stub.StreamObserver<dev.fencepost.v1.PauseSubmitterResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getPauseSubmitterMethod(), responseObserver);
    }

    /**
     * <pre>
     * ResumeSubmitter ends a pause. Returns once the owner has applied it. Idempotent. With pause_id
     * it ends no other pause than the one that was reviewed.
     * </pre>
     */
    default void resumeSubmitter(dev.fencepost.v1.ResumeSubmitterRequest request,
        io.grpc.stub.StreamObserver<dev.fencepost.v1.ResumeSubmitterResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getResumeSubmitterMethod(), responseObserver);
    }

    /**
     * <pre>
     * ProtectSubmitter protects a submitter by an operator's decision: no nonce is taken, nothing new
     * is signed, and no request is accepted until ExitProtect. In-flight transactions are tracked to
     * their outcome. Returns once the owner has applied it. Idempotent: an already protected
     * submitter keeps its reason, and a protection that would lift automatically then waits for an
     * operator. Exception: under REQUEUED_AND_RAN and ENDED_AND_RAN, a cancel transaction may be
     * signed for the nonce that the executed transaction still holds. A submitter that never took a
     * nonce is rejected with FAILED_PRECONDITION (DECISION_REFUSED); pause it instead.
     * </pre>
     */
    default void protectSubmitter(dev.fencepost.v1.ProtectSubmitterRequest request,
        io.grpc.stub.StreamObserver<dev.fencepost.v1.ProtectSubmitterResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getProtectSubmitterMethod(), responseObserver);
    }

    /**
     * <pre>
     * ExitProtect applies an operator's decision on a protection. The owner reads the chain first,
     * and rejects a decision that the chain contradicts with FAILED_PRECONDITION (DECISION_REFUSED).
     * Returns once the owner has decided. protection_id makes it idempotent: repeating the decision
     * that lifted the protection returns OK, another decision on it returns ABORTED
     * (PROTECTION_CHANGED).
     * </pre>
     */
    default void exitProtect(dev.fencepost.v1.ExitProtectRequest request,
        io.grpc.stub.StreamObserver<dev.fencepost.v1.ExitProtectResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getExitProtectMethod(), responseObserver);
    }

    /**
     * <pre>
     * ResolveStuck decides on a STUCK transaction: restart its broadcast attempts or, if a
     * transaction outside the ledger used its nonce, settle its outcome. The owner reads the chain
     * first. It returns FAILED_PRECONDITION (DECISION_REFUSED) while the transaction could still be
     * included, and while the use of the nonce cannot be proven. Returns once the owner has decided.
     * Repeating the applied decision returns OK with the current transaction.
     * </pre>
     */
    default void resolveStuck(dev.fencepost.v1.ResolveStuckRequest request,
        io.grpc.stub.StreamObserver<dev.fencepost.v1.ResolveStuckResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getResolveStuckMethod(), responseObserver);
    }

    /**
     * <pre>
     * ListCommands returns the history of a submitter, or of all to which the caller has a right,
     * newest first: each command with its operator
     * and result, cancellations of queued transactions, and automatic actions (operator "fencepost").
     * Those are a PAUSE by policy, the PROTECT of each protection with its evidence, and the
     * EXIT_PROTECT of a protection that lifted automatically. Entries are never removed. The history
     * of all submitters includes the decisions about sinks, for operators of all submitters.
     * </pre>
     */
    default void listCommands(dev.fencepost.v1.ListCommandsRequest request,
        io.grpc.stub.StreamObserver<dev.fencepost.v1.ListCommandsResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getListCommandsMethod(), responseObserver);
    }
  }

  /**
   * Base class for the server implementation of the service SubmitterService.
   * <pre>
   * SubmitterService manages the accounts that Fencepost sends from. It is for operators.
   * </pre>
   */
  public static abstract class SubmitterServiceImplBase
      implements io.grpc.BindableService, AsyncService {

    @java.lang.Override public final io.grpc.ServerServiceDefinition bindService() {
      return SubmitterServiceGrpc.bindService(this);
    }
  }

  /**
   * A stub to allow clients to do asynchronous rpc calls to service SubmitterService.
   * <pre>
   * SubmitterService manages the accounts that Fencepost sends from. It is for operators.
   * </pre>
   */
  public static final class SubmitterServiceStub
      extends io.grpc.stub.AbstractAsyncStub<SubmitterServiceStub> {
    private SubmitterServiceStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected SubmitterServiceStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new SubmitterServiceStub(channel, callOptions);
    }

    /**
     * <pre>
     * RegisterSubmitter registers an account. Repeating the call returns the registered submitter; a
     * call with other settings is rejected with ALREADY_EXISTS.
     * </pre>
     */
    public void registerSubmitter(dev.fencepost.v1.RegisterSubmitterRequest request,
        io.grpc.stub.StreamObserver<dev.fencepost.v1.RegisterSubmitterResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getRegisterSubmitterMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * GetSubmitter returns owner, next nonce, queue and status of one submitter.
     * </pre>
     */
    public void getSubmitter(dev.fencepost.v1.GetSubmitterRequest request,
        io.grpc.stub.StreamObserver<dev.fencepost.v1.GetSubmitterResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getGetSubmitterMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * ListSubmitters returns pages of submitters, ordered by name.
     * </pre>
     */
    public void listSubmitters(dev.fencepost.v1.ListSubmittersRequest request,
        io.grpc.stub.StreamObserver<dev.fencepost.v1.ListSubmittersResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getListSubmittersMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * UpdateSubmitter changes the policies named by update_mask. Returns once the owner has applied
     * them.
     * </pre>
     */
    public void updateSubmitter(dev.fencepost.v1.UpdateSubmitterRequest request,
        io.grpc.stub.StreamObserver<dev.fencepost.v1.UpdateSubmitterResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getUpdateSubmitterMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * PauseSubmitter stops the assignment of new nonces. In-flight transactions are tracked to their
     * outcome; queued ones wait. CreateTx returns FAILED_PRECONDITION (SUBMITTER_PAUSED) until
     * ResumeSubmitter. Returns once the owner has applied it. Idempotent.
     * </pre>
     */
    public void pauseSubmitter(dev.fencepost.v1.PauseSubmitterRequest request,
        io.grpc.stub.StreamObserver<dev.fencepost.v1.PauseSubmitterResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getPauseSubmitterMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * ResumeSubmitter ends a pause. Returns once the owner has applied it. Idempotent. With pause_id
     * it ends no other pause than the one that was reviewed.
     * </pre>
     */
    public void resumeSubmitter(dev.fencepost.v1.ResumeSubmitterRequest request,
        io.grpc.stub.StreamObserver<dev.fencepost.v1.ResumeSubmitterResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getResumeSubmitterMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * ProtectSubmitter protects a submitter by an operator's decision: no nonce is taken, nothing new
     * is signed, and no request is accepted until ExitProtect. In-flight transactions are tracked to
     * their outcome. Returns once the owner has applied it. Idempotent: an already protected
     * submitter keeps its reason, and a protection that would lift automatically then waits for an
     * operator. Exception: under REQUEUED_AND_RAN and ENDED_AND_RAN, a cancel transaction may be
     * signed for the nonce that the executed transaction still holds. A submitter that never took a
     * nonce is rejected with FAILED_PRECONDITION (DECISION_REFUSED); pause it instead.
     * </pre>
     */
    public void protectSubmitter(dev.fencepost.v1.ProtectSubmitterRequest request,
        io.grpc.stub.StreamObserver<dev.fencepost.v1.ProtectSubmitterResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getProtectSubmitterMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * ExitProtect applies an operator's decision on a protection. The owner reads the chain first,
     * and rejects a decision that the chain contradicts with FAILED_PRECONDITION (DECISION_REFUSED).
     * Returns once the owner has decided. protection_id makes it idempotent: repeating the decision
     * that lifted the protection returns OK, another decision on it returns ABORTED
     * (PROTECTION_CHANGED).
     * </pre>
     */
    public void exitProtect(dev.fencepost.v1.ExitProtectRequest request,
        io.grpc.stub.StreamObserver<dev.fencepost.v1.ExitProtectResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getExitProtectMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * ResolveStuck decides on a STUCK transaction: restart its broadcast attempts or, if a
     * transaction outside the ledger used its nonce, settle its outcome. The owner reads the chain
     * first. It returns FAILED_PRECONDITION (DECISION_REFUSED) while the transaction could still be
     * included, and while the use of the nonce cannot be proven. Returns once the owner has decided.
     * Repeating the applied decision returns OK with the current transaction.
     * </pre>
     */
    public void resolveStuck(dev.fencepost.v1.ResolveStuckRequest request,
        io.grpc.stub.StreamObserver<dev.fencepost.v1.ResolveStuckResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getResolveStuckMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * ListCommands returns the history of a submitter, or of all to which the caller has a right,
     * newest first: each command with its operator
     * and result, cancellations of queued transactions, and automatic actions (operator "fencepost").
     * Those are a PAUSE by policy, the PROTECT of each protection with its evidence, and the
     * EXIT_PROTECT of a protection that lifted automatically. Entries are never removed. The history
     * of all submitters includes the decisions about sinks, for operators of all submitters.
     * </pre>
     */
    public void listCommands(dev.fencepost.v1.ListCommandsRequest request,
        io.grpc.stub.StreamObserver<dev.fencepost.v1.ListCommandsResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getListCommandsMethod(), getCallOptions()), request, responseObserver);
    }
  }

  /**
   * A stub to allow clients to do synchronous rpc calls to service SubmitterService.
   * <pre>
   * SubmitterService manages the accounts that Fencepost sends from. It is for operators.
   * </pre>
   */
  public static final class SubmitterServiceBlockingV2Stub
      extends io.grpc.stub.AbstractBlockingStub<SubmitterServiceBlockingV2Stub> {
    private SubmitterServiceBlockingV2Stub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected SubmitterServiceBlockingV2Stub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new SubmitterServiceBlockingV2Stub(channel, callOptions);
    }

    /**
     * <pre>
     * RegisterSubmitter registers an account. Repeating the call returns the registered submitter; a
     * call with other settings is rejected with ALREADY_EXISTS.
     * </pre>
     */
    public dev.fencepost.v1.RegisterSubmitterResponse registerSubmitter(dev.fencepost.v1.RegisterSubmitterRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getRegisterSubmitterMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * GetSubmitter returns owner, next nonce, queue and status of one submitter.
     * </pre>
     */
    public dev.fencepost.v1.GetSubmitterResponse getSubmitter(dev.fencepost.v1.GetSubmitterRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getGetSubmitterMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * ListSubmitters returns pages of submitters, ordered by name.
     * </pre>
     */
    public dev.fencepost.v1.ListSubmittersResponse listSubmitters(dev.fencepost.v1.ListSubmittersRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getListSubmittersMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * UpdateSubmitter changes the policies named by update_mask. Returns once the owner has applied
     * them.
     * </pre>
     */
    public dev.fencepost.v1.UpdateSubmitterResponse updateSubmitter(dev.fencepost.v1.UpdateSubmitterRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getUpdateSubmitterMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * PauseSubmitter stops the assignment of new nonces. In-flight transactions are tracked to their
     * outcome; queued ones wait. CreateTx returns FAILED_PRECONDITION (SUBMITTER_PAUSED) until
     * ResumeSubmitter. Returns once the owner has applied it. Idempotent.
     * </pre>
     */
    public dev.fencepost.v1.PauseSubmitterResponse pauseSubmitter(dev.fencepost.v1.PauseSubmitterRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getPauseSubmitterMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * ResumeSubmitter ends a pause. Returns once the owner has applied it. Idempotent. With pause_id
     * it ends no other pause than the one that was reviewed.
     * </pre>
     */
    public dev.fencepost.v1.ResumeSubmitterResponse resumeSubmitter(dev.fencepost.v1.ResumeSubmitterRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getResumeSubmitterMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * ProtectSubmitter protects a submitter by an operator's decision: no nonce is taken, nothing new
     * is signed, and no request is accepted until ExitProtect. In-flight transactions are tracked to
     * their outcome. Returns once the owner has applied it. Idempotent: an already protected
     * submitter keeps its reason, and a protection that would lift automatically then waits for an
     * operator. Exception: under REQUEUED_AND_RAN and ENDED_AND_RAN, a cancel transaction may be
     * signed for the nonce that the executed transaction still holds. A submitter that never took a
     * nonce is rejected with FAILED_PRECONDITION (DECISION_REFUSED); pause it instead.
     * </pre>
     */
    public dev.fencepost.v1.ProtectSubmitterResponse protectSubmitter(dev.fencepost.v1.ProtectSubmitterRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getProtectSubmitterMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * ExitProtect applies an operator's decision on a protection. The owner reads the chain first,
     * and rejects a decision that the chain contradicts with FAILED_PRECONDITION (DECISION_REFUSED).
     * Returns once the owner has decided. protection_id makes it idempotent: repeating the decision
     * that lifted the protection returns OK, another decision on it returns ABORTED
     * (PROTECTION_CHANGED).
     * </pre>
     */
    public dev.fencepost.v1.ExitProtectResponse exitProtect(dev.fencepost.v1.ExitProtectRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getExitProtectMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * ResolveStuck decides on a STUCK transaction: restart its broadcast attempts or, if a
     * transaction outside the ledger used its nonce, settle its outcome. The owner reads the chain
     * first. It returns FAILED_PRECONDITION (DECISION_REFUSED) while the transaction could still be
     * included, and while the use of the nonce cannot be proven. Returns once the owner has decided.
     * Repeating the applied decision returns OK with the current transaction.
     * </pre>
     */
    public dev.fencepost.v1.ResolveStuckResponse resolveStuck(dev.fencepost.v1.ResolveStuckRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getResolveStuckMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * ListCommands returns the history of a submitter, or of all to which the caller has a right,
     * newest first: each command with its operator
     * and result, cancellations of queued transactions, and automatic actions (operator "fencepost").
     * Those are a PAUSE by policy, the PROTECT of each protection with its evidence, and the
     * EXIT_PROTECT of a protection that lifted automatically. Entries are never removed. The history
     * of all submitters includes the decisions about sinks, for operators of all submitters.
     * </pre>
     */
    public dev.fencepost.v1.ListCommandsResponse listCommands(dev.fencepost.v1.ListCommandsRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getListCommandsMethod(), getCallOptions(), request);
    }
  }

  /**
   * A stub to allow clients to do limited synchronous rpc calls to service SubmitterService.
   * <pre>
   * SubmitterService manages the accounts that Fencepost sends from. It is for operators.
   * </pre>
   */
  public static final class SubmitterServiceBlockingStub
      extends io.grpc.stub.AbstractBlockingStub<SubmitterServiceBlockingStub> {
    private SubmitterServiceBlockingStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected SubmitterServiceBlockingStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new SubmitterServiceBlockingStub(channel, callOptions);
    }

    /**
     * <pre>
     * RegisterSubmitter registers an account. Repeating the call returns the registered submitter; a
     * call with other settings is rejected with ALREADY_EXISTS.
     * </pre>
     */
    public dev.fencepost.v1.RegisterSubmitterResponse registerSubmitter(dev.fencepost.v1.RegisterSubmitterRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getRegisterSubmitterMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * GetSubmitter returns owner, next nonce, queue and status of one submitter.
     * </pre>
     */
    public dev.fencepost.v1.GetSubmitterResponse getSubmitter(dev.fencepost.v1.GetSubmitterRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getGetSubmitterMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * ListSubmitters returns pages of submitters, ordered by name.
     * </pre>
     */
    public dev.fencepost.v1.ListSubmittersResponse listSubmitters(dev.fencepost.v1.ListSubmittersRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getListSubmittersMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * UpdateSubmitter changes the policies named by update_mask. Returns once the owner has applied
     * them.
     * </pre>
     */
    public dev.fencepost.v1.UpdateSubmitterResponse updateSubmitter(dev.fencepost.v1.UpdateSubmitterRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getUpdateSubmitterMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * PauseSubmitter stops the assignment of new nonces. In-flight transactions are tracked to their
     * outcome; queued ones wait. CreateTx returns FAILED_PRECONDITION (SUBMITTER_PAUSED) until
     * ResumeSubmitter. Returns once the owner has applied it. Idempotent.
     * </pre>
     */
    public dev.fencepost.v1.PauseSubmitterResponse pauseSubmitter(dev.fencepost.v1.PauseSubmitterRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getPauseSubmitterMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * ResumeSubmitter ends a pause. Returns once the owner has applied it. Idempotent. With pause_id
     * it ends no other pause than the one that was reviewed.
     * </pre>
     */
    public dev.fencepost.v1.ResumeSubmitterResponse resumeSubmitter(dev.fencepost.v1.ResumeSubmitterRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getResumeSubmitterMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * ProtectSubmitter protects a submitter by an operator's decision: no nonce is taken, nothing new
     * is signed, and no request is accepted until ExitProtect. In-flight transactions are tracked to
     * their outcome. Returns once the owner has applied it. Idempotent: an already protected
     * submitter keeps its reason, and a protection that would lift automatically then waits for an
     * operator. Exception: under REQUEUED_AND_RAN and ENDED_AND_RAN, a cancel transaction may be
     * signed for the nonce that the executed transaction still holds. A submitter that never took a
     * nonce is rejected with FAILED_PRECONDITION (DECISION_REFUSED); pause it instead.
     * </pre>
     */
    public dev.fencepost.v1.ProtectSubmitterResponse protectSubmitter(dev.fencepost.v1.ProtectSubmitterRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getProtectSubmitterMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * ExitProtect applies an operator's decision on a protection. The owner reads the chain first,
     * and rejects a decision that the chain contradicts with FAILED_PRECONDITION (DECISION_REFUSED).
     * Returns once the owner has decided. protection_id makes it idempotent: repeating the decision
     * that lifted the protection returns OK, another decision on it returns ABORTED
     * (PROTECTION_CHANGED).
     * </pre>
     */
    public dev.fencepost.v1.ExitProtectResponse exitProtect(dev.fencepost.v1.ExitProtectRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getExitProtectMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * ResolveStuck decides on a STUCK transaction: restart its broadcast attempts or, if a
     * transaction outside the ledger used its nonce, settle its outcome. The owner reads the chain
     * first. It returns FAILED_PRECONDITION (DECISION_REFUSED) while the transaction could still be
     * included, and while the use of the nonce cannot be proven. Returns once the owner has decided.
     * Repeating the applied decision returns OK with the current transaction.
     * </pre>
     */
    public dev.fencepost.v1.ResolveStuckResponse resolveStuck(dev.fencepost.v1.ResolveStuckRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getResolveStuckMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * ListCommands returns the history of a submitter, or of all to which the caller has a right,
     * newest first: each command with its operator
     * and result, cancellations of queued transactions, and automatic actions (operator "fencepost").
     * Those are a PAUSE by policy, the PROTECT of each protection with its evidence, and the
     * EXIT_PROTECT of a protection that lifted automatically. Entries are never removed. The history
     * of all submitters includes the decisions about sinks, for operators of all submitters.
     * </pre>
     */
    public dev.fencepost.v1.ListCommandsResponse listCommands(dev.fencepost.v1.ListCommandsRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getListCommandsMethod(), getCallOptions(), request);
    }
  }

  /**
   * A stub to allow clients to do ListenableFuture-style rpc calls to service SubmitterService.
   * <pre>
   * SubmitterService manages the accounts that Fencepost sends from. It is for operators.
   * </pre>
   */
  public static final class SubmitterServiceFutureStub
      extends io.grpc.stub.AbstractFutureStub<SubmitterServiceFutureStub> {
    private SubmitterServiceFutureStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected SubmitterServiceFutureStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new SubmitterServiceFutureStub(channel, callOptions);
    }

    /**
     * <pre>
     * RegisterSubmitter registers an account. Repeating the call returns the registered submitter; a
     * call with other settings is rejected with ALREADY_EXISTS.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.fencepost.v1.RegisterSubmitterResponse> registerSubmitter(
        dev.fencepost.v1.RegisterSubmitterRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getRegisterSubmitterMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * GetSubmitter returns owner, next nonce, queue and status of one submitter.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.fencepost.v1.GetSubmitterResponse> getSubmitter(
        dev.fencepost.v1.GetSubmitterRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getGetSubmitterMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * ListSubmitters returns pages of submitters, ordered by name.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.fencepost.v1.ListSubmittersResponse> listSubmitters(
        dev.fencepost.v1.ListSubmittersRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getListSubmittersMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * UpdateSubmitter changes the policies named by update_mask. Returns once the owner has applied
     * them.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.fencepost.v1.UpdateSubmitterResponse> updateSubmitter(
        dev.fencepost.v1.UpdateSubmitterRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getUpdateSubmitterMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * PauseSubmitter stops the assignment of new nonces. In-flight transactions are tracked to their
     * outcome; queued ones wait. CreateTx returns FAILED_PRECONDITION (SUBMITTER_PAUSED) until
     * ResumeSubmitter. Returns once the owner has applied it. Idempotent.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.fencepost.v1.PauseSubmitterResponse> pauseSubmitter(
        dev.fencepost.v1.PauseSubmitterRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getPauseSubmitterMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * ResumeSubmitter ends a pause. Returns once the owner has applied it. Idempotent. With pause_id
     * it ends no other pause than the one that was reviewed.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.fencepost.v1.ResumeSubmitterResponse> resumeSubmitter(
        dev.fencepost.v1.ResumeSubmitterRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getResumeSubmitterMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * ProtectSubmitter protects a submitter by an operator's decision: no nonce is taken, nothing new
     * is signed, and no request is accepted until ExitProtect. In-flight transactions are tracked to
     * their outcome. Returns once the owner has applied it. Idempotent: an already protected
     * submitter keeps its reason, and a protection that would lift automatically then waits for an
     * operator. Exception: under REQUEUED_AND_RAN and ENDED_AND_RAN, a cancel transaction may be
     * signed for the nonce that the executed transaction still holds. A submitter that never took a
     * nonce is rejected with FAILED_PRECONDITION (DECISION_REFUSED); pause it instead.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.fencepost.v1.ProtectSubmitterResponse> protectSubmitter(
        dev.fencepost.v1.ProtectSubmitterRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getProtectSubmitterMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * ExitProtect applies an operator's decision on a protection. The owner reads the chain first,
     * and rejects a decision that the chain contradicts with FAILED_PRECONDITION (DECISION_REFUSED).
     * Returns once the owner has decided. protection_id makes it idempotent: repeating the decision
     * that lifted the protection returns OK, another decision on it returns ABORTED
     * (PROTECTION_CHANGED).
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.fencepost.v1.ExitProtectResponse> exitProtect(
        dev.fencepost.v1.ExitProtectRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getExitProtectMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * ResolveStuck decides on a STUCK transaction: restart its broadcast attempts or, if a
     * transaction outside the ledger used its nonce, settle its outcome. The owner reads the chain
     * first. It returns FAILED_PRECONDITION (DECISION_REFUSED) while the transaction could still be
     * included, and while the use of the nonce cannot be proven. Returns once the owner has decided.
     * Repeating the applied decision returns OK with the current transaction.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.fencepost.v1.ResolveStuckResponse> resolveStuck(
        dev.fencepost.v1.ResolveStuckRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getResolveStuckMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * ListCommands returns the history of a submitter, or of all to which the caller has a right,
     * newest first: each command with its operator
     * and result, cancellations of queued transactions, and automatic actions (operator "fencepost").
     * Those are a PAUSE by policy, the PROTECT of each protection with its evidence, and the
     * EXIT_PROTECT of a protection that lifted automatically. Entries are never removed. The history
     * of all submitters includes the decisions about sinks, for operators of all submitters.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.fencepost.v1.ListCommandsResponse> listCommands(
        dev.fencepost.v1.ListCommandsRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getListCommandsMethod(), getCallOptions()), request);
    }
  }

  private static final int METHODID_REGISTER_SUBMITTER = 0;
  private static final int METHODID_GET_SUBMITTER = 1;
  private static final int METHODID_LIST_SUBMITTERS = 2;
  private static final int METHODID_UPDATE_SUBMITTER = 3;
  private static final int METHODID_PAUSE_SUBMITTER = 4;
  private static final int METHODID_RESUME_SUBMITTER = 5;
  private static final int METHODID_PROTECT_SUBMITTER = 6;
  private static final int METHODID_EXIT_PROTECT = 7;
  private static final int METHODID_RESOLVE_STUCK = 8;
  private static final int METHODID_LIST_COMMANDS = 9;

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
        case METHODID_REGISTER_SUBMITTER:
          serviceImpl.registerSubmitter((dev.fencepost.v1.RegisterSubmitterRequest) request,
              (io.grpc.stub.StreamObserver<dev.fencepost.v1.RegisterSubmitterResponse>) responseObserver);
          break;
        case METHODID_GET_SUBMITTER:
          serviceImpl.getSubmitter((dev.fencepost.v1.GetSubmitterRequest) request,
              (io.grpc.stub.StreamObserver<dev.fencepost.v1.GetSubmitterResponse>) responseObserver);
          break;
        case METHODID_LIST_SUBMITTERS:
          serviceImpl.listSubmitters((dev.fencepost.v1.ListSubmittersRequest) request,
              (io.grpc.stub.StreamObserver<dev.fencepost.v1.ListSubmittersResponse>) responseObserver);
          break;
        case METHODID_UPDATE_SUBMITTER:
          serviceImpl.updateSubmitter((dev.fencepost.v1.UpdateSubmitterRequest) request,
              (io.grpc.stub.StreamObserver<dev.fencepost.v1.UpdateSubmitterResponse>) responseObserver);
          break;
        case METHODID_PAUSE_SUBMITTER:
          serviceImpl.pauseSubmitter((dev.fencepost.v1.PauseSubmitterRequest) request,
              (io.grpc.stub.StreamObserver<dev.fencepost.v1.PauseSubmitterResponse>) responseObserver);
          break;
        case METHODID_RESUME_SUBMITTER:
          serviceImpl.resumeSubmitter((dev.fencepost.v1.ResumeSubmitterRequest) request,
              (io.grpc.stub.StreamObserver<dev.fencepost.v1.ResumeSubmitterResponse>) responseObserver);
          break;
        case METHODID_PROTECT_SUBMITTER:
          serviceImpl.protectSubmitter((dev.fencepost.v1.ProtectSubmitterRequest) request,
              (io.grpc.stub.StreamObserver<dev.fencepost.v1.ProtectSubmitterResponse>) responseObserver);
          break;
        case METHODID_EXIT_PROTECT:
          serviceImpl.exitProtect((dev.fencepost.v1.ExitProtectRequest) request,
              (io.grpc.stub.StreamObserver<dev.fencepost.v1.ExitProtectResponse>) responseObserver);
          break;
        case METHODID_RESOLVE_STUCK:
          serviceImpl.resolveStuck((dev.fencepost.v1.ResolveStuckRequest) request,
              (io.grpc.stub.StreamObserver<dev.fencepost.v1.ResolveStuckResponse>) responseObserver);
          break;
        case METHODID_LIST_COMMANDS:
          serviceImpl.listCommands((dev.fencepost.v1.ListCommandsRequest) request,
              (io.grpc.stub.StreamObserver<dev.fencepost.v1.ListCommandsResponse>) responseObserver);
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
          getRegisterSubmitterMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.fencepost.v1.RegisterSubmitterRequest,
              dev.fencepost.v1.RegisterSubmitterResponse>(
                service, METHODID_REGISTER_SUBMITTER)))
        .addMethod(
          getGetSubmitterMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.fencepost.v1.GetSubmitterRequest,
              dev.fencepost.v1.GetSubmitterResponse>(
                service, METHODID_GET_SUBMITTER)))
        .addMethod(
          getListSubmittersMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.fencepost.v1.ListSubmittersRequest,
              dev.fencepost.v1.ListSubmittersResponse>(
                service, METHODID_LIST_SUBMITTERS)))
        .addMethod(
          getUpdateSubmitterMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.fencepost.v1.UpdateSubmitterRequest,
              dev.fencepost.v1.UpdateSubmitterResponse>(
                service, METHODID_UPDATE_SUBMITTER)))
        .addMethod(
          getPauseSubmitterMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.fencepost.v1.PauseSubmitterRequest,
              dev.fencepost.v1.PauseSubmitterResponse>(
                service, METHODID_PAUSE_SUBMITTER)))
        .addMethod(
          getResumeSubmitterMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.fencepost.v1.ResumeSubmitterRequest,
              dev.fencepost.v1.ResumeSubmitterResponse>(
                service, METHODID_RESUME_SUBMITTER)))
        .addMethod(
          getProtectSubmitterMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.fencepost.v1.ProtectSubmitterRequest,
              dev.fencepost.v1.ProtectSubmitterResponse>(
                service, METHODID_PROTECT_SUBMITTER)))
        .addMethod(
          getExitProtectMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.fencepost.v1.ExitProtectRequest,
              dev.fencepost.v1.ExitProtectResponse>(
                service, METHODID_EXIT_PROTECT)))
        .addMethod(
          getResolveStuckMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.fencepost.v1.ResolveStuckRequest,
              dev.fencepost.v1.ResolveStuckResponse>(
                service, METHODID_RESOLVE_STUCK)))
        .addMethod(
          getListCommandsMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.fencepost.v1.ListCommandsRequest,
              dev.fencepost.v1.ListCommandsResponse>(
                service, METHODID_LIST_COMMANDS)))
        .build();
  }

  private static abstract class SubmitterServiceBaseDescriptorSupplier
      implements io.grpc.protobuf.ProtoFileDescriptorSupplier, io.grpc.protobuf.ProtoServiceDescriptorSupplier {
    SubmitterServiceBaseDescriptorSupplier() {}

    @java.lang.Override
    public com.google.protobuf.Descriptors.FileDescriptor getFileDescriptor() {
      return dev.fencepost.v1.SubmitterOuterClass.getDescriptor();
    }

    @java.lang.Override
    public com.google.protobuf.Descriptors.ServiceDescriptor getServiceDescriptor() {
      return getFileDescriptor().findServiceByName("SubmitterService");
    }
  }

  private static final class SubmitterServiceFileDescriptorSupplier
      extends SubmitterServiceBaseDescriptorSupplier {
    SubmitterServiceFileDescriptorSupplier() {}
  }

  private static final class SubmitterServiceMethodDescriptorSupplier
      extends SubmitterServiceBaseDescriptorSupplier
      implements io.grpc.protobuf.ProtoMethodDescriptorSupplier {
    private final java.lang.String methodName;

    SubmitterServiceMethodDescriptorSupplier(java.lang.String methodName) {
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
      synchronized (SubmitterServiceGrpc.class) {
        result = serviceDescriptor;
        if (result == null) {
          serviceDescriptor = result = io.grpc.ServiceDescriptor.newBuilder(SERVICE_NAME)
              .setSchemaDescriptor(new SubmitterServiceFileDescriptorSupplier())
              .addMethod(getRegisterSubmitterMethod())
              .addMethod(getGetSubmitterMethod())
              .addMethod(getListSubmittersMethod())
              .addMethod(getUpdateSubmitterMethod())
              .addMethod(getPauseSubmitterMethod())
              .addMethod(getResumeSubmitterMethod())
              .addMethod(getProtectSubmitterMethod())
              .addMethod(getExitProtectMethod())
              .addMethod(getResolveStuckMethod())
              .addMethod(getListCommandsMethod())
              .build();
        }
      }
    }
    return result;
  }
}
