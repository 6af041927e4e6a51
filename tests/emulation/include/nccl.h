#pragma once
// What our communicator uses of NCCL, for g++: ranks are threads of one process, and calls are queued on emulated streams.
// Signatures as in NVIDIA's documentation of NCCL 2.28.

#include <cuda_runtime.h>

#include <cstddef>

struct ncclUniqueId {
  char internal[128];
};
namespace emulation {
struct nccl_rank;
}
using ncclComm_t = emulation::nccl_rank*;
enum ncclResult_t { ncclSuccess, ncclUnhandledCudaError, ncclSystemError, ncclInternalError, ncclInvalidArgument, ncclInvalidUsage, ncclRemoteError, ncclInProgress };
enum ncclDataType_t { ncclInt8 = 0, ncclUint8 = 1, ncclFloat32 = 7 };
enum ncclRedOp_t { ncclSum };

char const* ncclGetErrorString(ncclResult_t code);
ncclResult_t ncclGetUniqueId(ncclUniqueId* id);
ncclResult_t ncclCommInitRank(ncclComm_t* comm, int size, ncclUniqueId id, int rank);
ncclResult_t ncclCommDestroy(ncclComm_t comm);
ncclResult_t ncclCommAbort(ncclComm_t comm);
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* code);
ncclResult_t ncclGroupStart();
ncclResult_t ncclGroupEnd();
ncclResult_t ncclSend(void const* from, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclRecv(void* to, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclAllGather(void const* from, void* to, std::size_t count, ncclDataType_t type, ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclBroadcast(void const* from, void* to, std::size_t count, ncclDataType_t type, int root, ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclAllReduce(void const* from, void* to, std::size_t count, ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream);

namespace emulation {
/// A collective that waits longer than this for the others ends with an error of its communicator. NCCL itself waits for ever; here
/// whoever looks at an event runs what it waits for, so a wait without end could not be ended from outside. [20 s]
void nccl_patience(double seconds);
}  // namespace emulation
