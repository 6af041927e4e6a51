if(NOT NESTPIPE_INSTALL)
  return()
endif()
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(_where "${CMAKE_INSTALL_LIBDIR}/cmake/nestpipe")

install(TARGETS nestpipe EXPORT nestpipeTargets FILE_SET HEADERS FILE_SET toolkit_headers)
install(DIRECTORY include/nestpipe DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" FILES_MATCHING PATTERN "*.cuh")
install(EXPORT nestpipeTargets NAMESPACE nestpipe:: DESTINATION "${_where}")
configure_package_config_file(cmake/nestpipeConfig.cmake.in "${PROJECT_BINARY_DIR}/nestpipeConfig.cmake" INSTALL_DESTINATION "${_where}")
# Below 1.0 a minor version may change interfaces. Headers have no word size.
write_basic_package_version_file("${PROJECT_BINARY_DIR}/nestpipeConfigVersion.cmake" COMPATIBILITY SameMinorVersion ARCH_INDEPENDENT)
install(FILES "${PROJECT_BINARY_DIR}/nestpipeConfig.cmake" "${PROJECT_BINARY_DIR}/nestpipeConfigVersion.cmake"
  cmake/NestpipeComponents.cmake cmake/FindDNNL.cmake cmake/FindNCCL.cmake cmake/FindRocksDB.cmake DESTINATION "${_where}")
install(FILES LICENSE DESTINATION "${CMAKE_INSTALL_DOCDIR}")
