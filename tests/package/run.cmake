# cmake -D BUILD=... -D SOURCE=... -D WORK=... -D GENERATOR=... -D CXX=... -D COMPONENTS=a,b -P run.cmake
# Installs into a fresh folder, moves it (an installed package must not know where it was made), then configures, builds and runs the consumer.
function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE rc OUTPUT_VARIABLE out ERROR_VARIABLE out)
  if(NOT rc EQUAL 0)
    message(FATAL_ERROR "${out}\nfailed (${rc}): ${ARGN}")
  endif()
  message(STATUS "${out}")
endfunction()

string(REPLACE "," ";" COMPONENTS "${COMPONENTS}")
file(REMOVE_RECURSE "${WORK}")
run(${CMAKE_COMMAND} --install "${BUILD}" --prefix "${WORK}/first")
file(RENAME "${WORK}/first" "${WORK}/prefix")
set(configure ${CMAKE_COMMAND} -S "${SOURCE}" -G "${GENERATOR}" -D CMAKE_CXX_COMPILER=${CXX} -D CMAKE_PREFIX_PATH=${WORK}/prefix)
run(${configure} -B "${WORK}/build" "-DCONSUMER_COMPONENTS=${COMPONENTS}")
run(${CMAKE_COMMAND} --build "${WORK}/build")
run("${WORK}/build/consumer")

# The other way round: an unknown component is refused, by name.
execute_process(COMMAND ${configure} -B "${WORK}/refused" -D CONSUMER_COMPONENTS=warp RESULT_VARIABLE rc OUTPUT_VARIABLE out ERROR_VARIABLE out)
if(rc EQUAL 0 OR NOT out MATCHES "no component 'warp'")
  message(FATAL_ERROR "an unknown component was not refused by name:\n${out}")
endif()
file(REMOVE_RECURSE "${WORK}")
