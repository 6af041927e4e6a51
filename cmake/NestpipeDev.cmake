# nestpipe_dev: warnings, processor flags and sanitizers of our own tests, examples and benchmarks. Never installed, never on the library.
add_library(nestpipe_dev INTERFACE)
set(_warnings -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion -Werror)
target_compile_options(nestpipe_dev INTERFACE "$<$<COMPILE_LANG_AND_ID:CXX,GNU,Clang,AppleClang>:${_warnings}>")
# g++ 12 sees overlapping copies in `"text" + std::to_string(n)` (GCC bug 105651).
target_compile_options(nestpipe_dev INTERFACE
  "$<$<AND:$<COMPILE_LANG_AND_ID:CXX,GNU>,$<VERSION_LESS:$<CXX_COMPILER_VERSION>,13>>:-Wno-restrict>")

if(NESTPIPE_NATIVE)
  include(CheckCXXCompilerFlag)
  check_cxx_compiler_flag(-march=native NESTPIPE_HAS_MARCH_NATIVE)
  if(NESTPIPE_HAS_MARCH_NATIVE)
    target_compile_options(nestpipe_dev INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-march=native>)
    # ccache sees the text "native", not the processor: name the processor in the command line, so that a cache carried to another machine does not hit.
    if(EXISTS /proc/cpuinfo)
      file(STRINGS /proc/cpuinfo _flags REGEX "^(flags|Features)" LIMIT_COUNT 1)
      string(MD5 _cpu "${_flags}")
      target_compile_definitions(nestpipe_dev INTERFACE $<$<COMPILE_LANGUAGE:CXX>:NESTPIPE_BUILD_CPU=0x${_cpu}>)
    endif()
  endif()
endif()

if(NESTPIPE_SANITIZE)
  if(NOT NESTPIPE_SANITIZE MATCHES "^(address|undefined|address,undefined|thread)$")
    message(FATAL_ERROR "NESTPIPE_SANITIZE is '${NESTPIPE_SANITIZE}'; say address,undefined or thread, or leave it empty")
  endif()
  target_compile_options(nestpipe_dev INTERFACE
    "$<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${NESTPIPE_SANITIZE};-fno-sanitize-recover=all;-Wno-maybe-uninitialized;-fno-omit-frame-pointer;-g1>")
  target_link_options(nestpipe_dev INTERFACE -fsanitize=${NESTPIPE_SANITIZE})
endif()

# nestpipe_all: the library with every part found on this machine, for our own programs.
add_library(nestpipe_all INTERFACE)
target_link_libraries(nestpipe_all INTERFACE nestpipe::nestpipe nestpipe::math
  $<TARGET_NAME_IF_EXISTS:nestpipe::zlib> $<TARGET_NAME_IF_EXISTS:nestpipe::json>)

include(NestpipeAddTest)
include(NestpipeEmulation)

# How our tests start MPI ranks: more ranks than cores, no pinning (several tests run at once), as root too, in containers without ssh or ptrace rights.
if(TARGET nestpipe::mpi)
  set(_mpi_flags)
  execute_process(COMMAND ${MPIEXEC_EXECUTABLE} --version OUTPUT_VARIABLE _mpirun ERROR_QUIET)
  if(_mpirun MATCHES "Open MPI|OpenRTE")
    set(_mpi_flags --allow-run-as-root --oversubscribe --bind-to none --mca plm isolated --mca btl_vader_single_copy_mechanism none
      --mca mpi_yield_when_idle 1)
  endif()
  set(NESTPIPE_MPI_FLAGS "${_mpi_flags}" CACHE STRING "What mpirun gets in the tests, before -np")
endif()
