# The optional parts of the library, one INTERFACE target each. Used twice: by the project itself and, installed, by nestpipeConfig.cmake; as all of it is headers,
# which toolkits exist is asked on the machine that compiles, never fixed at install time.
#
#   nestpipe_add_component(NAME)   finds the toolkit; sets nestpipe_NAME_FOUND in the caller and, when found, makes nestpipe::NAME
#
set(nestpipe_components mpi cuda nccl onednn eigen zlib json rocksdb)

# What to install on Debian for each, for the sentence of an error.
set(nestpipe_mpi_package "libopenmpi-dev and openmpi-bin")
set(nestpipe_cuda_package "nvidia-cuda-toolkit (12.0 or newer)")
set(nestpipe_nccl_package "libnccl-dev (non-free)")
set(nestpipe_onednn_package "libdnnl-dev")
set(nestpipe_eigen_package "libeigen3-dev")
set(nestpipe_zlib_package "zlib1g-dev")
set(nestpipe_json_package "nlohmann-json3-dev")
set(nestpipe_rocksdb_package "librocksdb-dev")

function(_nestpipe_interface name)  # arguments after the name: what it links
  if(CMAKE_FIND_PACKAGE_TARGETS_GLOBAL)
    add_library(nestpipe::${name} INTERFACE IMPORTED GLOBAL)
  else()
    add_library(nestpipe::${name} INTERFACE IMPORTED)
  endif()
  string(TOUPPER ${name} upper)
  target_compile_definitions(nestpipe::${name} INTERFACE NESTPIPE_WITH_${upper}=1)
  target_link_libraries(nestpipe::${name} INTERFACE nestpipe::nestpipe ${ARGN})
endfunction()

macro(nestpipe_add_component name)
  set(nestpipe_${name}_FOUND FALSE)
  if(TARGET nestpipe::${name})
    set(nestpipe_${name}_FOUND TRUE)

  elseif("${name}" STREQUAL "mpi")
    # Message passing between processes (comm::mpi). The C++ bindings of old MPI versions are kept out: they are gone from the standard and leak symbols.
    find_package(MPI QUIET COMPONENTS CXX)
    if(MPI_CXX_FOUND)
      set(nestpipe_mpi_FOUND TRUE)
      _nestpipe_interface(mpi MPI::MPI_CXX)
      target_compile_definitions(nestpipe::mpi INTERFACE OMPI_SKIP_MPICXX=1 MPICH_SKIP_MPICXX=1)
    endif()

  elseif("${name}" STREQUAL "cuda")
    # Device memory, streams, Thrust and CUB (in the toolkit's cccl folder), cuBLASLt.
    find_package(CUDAToolkit 12.0 QUIET)
    if(CUDAToolkit_FOUND)
      set(nestpipe_cuda_FOUND TRUE)
      _nestpipe_interface(cuda CUDA::cudart)
      if(TARGET CUDA::cublasLt)
        target_link_libraries(nestpipe::cuda INTERFACE CUDA::cublasLt CUDA::cublas)
      endif()
      # CMake 3.25.1 does not know C++20 for nvcc, so the flag is given by hand. No fused multiply-add: the device then rounds as the host does.
      target_compile_options(nestpipe::cuda INTERFACE
        "$<$<COMPILE_LANG_AND_ID:CUDA,NVIDIA>:-std=c++20>" "$<$<COMPILE_LANG_AND_ID:CUDA,NVIDIA>:--fmad=false>")
    endif()

  elseif("${name}" STREQUAL "nccl")
    # Collectives between GPUs (comm::nccl).
    nestpipe_add_component(cuda)
    if(nestpipe_cuda_FOUND)
      find_package(NCCL QUIET)
      if(NCCL_FOUND)
        set(nestpipe_nccl_FOUND TRUE)
        _nestpipe_interface(nccl nestpipe::cuda NCCL::nccl)
      endif()
    endif()

  elseif("${name}" STREQUAL "onednn")
    # The fast backend of the dense layers: 1.3 to 2 times Eigen on one core.
    find_package(DNNL QUIET)
    if(DNNL_FOUND)
      set(nestpipe_onednn_FOUND TRUE)
      _nestpipe_interface(onednn DNNL::dnnl)
    endif()

  elseif("${name}" STREQUAL "eigen")
    # The portable backend of the dense layers, headers only, and the one that also works in double precision.
    find_package(Eigen3 3.3 QUIET NO_MODULE)
    if(TARGET Eigen3::Eigen)
      set(nestpipe_eigen_FOUND TRUE)
      _nestpipe_interface(eigen Eigen3::Eigen)
    endif()

  elseif("${name}" STREQUAL "zlib")
    # Readers of gzip-compressed logs.
    find_package(ZLIB QUIET)
    if(ZLIB_FOUND)
      set(nestpipe_zlib_FOUND TRUE)
      _nestpipe_interface(zlib ZLIB::ZLIB)
    endif()

  elseif("${name}" STREQUAL "json")
    # Reports, checkpoint manifests, cluster profiles.
    find_package(nlohmann_json 3.9 QUIET)
    if(TARGET nlohmann_json::nlohmann_json)
      set(nestpipe_json_FOUND TRUE)
      _nestpipe_interface(json nlohmann_json::nlohmann_json)
    endif()

  elseif("${name}" STREQUAL "rocksdb")
    # Tables on disk without an index in memory (storage::rocksdb).
    find_package(RocksDB 7.0 QUIET MODULE)
    if(RocksDB_FOUND)
      set(nestpipe_rocksdb_FOUND TRUE)
      _nestpipe_interface(rocksdb RocksDB::rocksdb-shared)
    endif()
  endif()
endmacro()

# nestpipe::math: the dense backends there are; NESTPIPE_WITH_ONEDNN and NESTPIPE_WITH_EIGEN tell the headers which.
macro(nestpipe_add_math)
  if(NOT TARGET nestpipe::math)
    if(CMAKE_FIND_PACKAGE_TARGETS_GLOBAL)
      add_library(nestpipe::math INTERFACE IMPORTED GLOBAL)
    else()
      add_library(nestpipe::math INTERFACE IMPORTED)
    endif()
    target_link_libraries(nestpipe::math INTERFACE nestpipe::nestpipe
      $<TARGET_NAME_IF_EXISTS:nestpipe::onednn> $<TARGET_NAME_IF_EXISTS:nestpipe::eigen>)
  endif()
endmacro()
