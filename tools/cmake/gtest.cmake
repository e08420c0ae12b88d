# GoogleTest and GoogleMock from Debian's source package, compiled with our own flags: the same
# library serves sanitizers and WebAssembly, where threads, death tests and redirection are absent.
set(NONSTOP_GTEST_DIR /usr/src/googletest)
if(NOT EXISTS ${NONSTOP_GTEST_DIR}/googletest/src/gtest-all.cc)
  message(FATAL_ERROR "GoogleTest's source (${NONSTOP_GTEST_DIR}) is missing: install libgtest-dev.")
endif()

add_library(nonstop_gtest STATIC EXCLUDE_FROM_ALL
  ${NONSTOP_GTEST_DIR}/googletest/src/gtest-all.cc
  ${NONSTOP_GTEST_DIR}/googlemock/src/gmock-all.cc
  ${NONSTOP_GTEST_DIR}/googlemock/src/gmock_main.cc)
target_include_directories(nonstop_gtest SYSTEM
  PUBLIC ${NONSTOP_GTEST_DIR}/googletest/include ${NONSTOP_GTEST_DIR}/googlemock/include
  PRIVATE ${NONSTOP_GTEST_DIR}/googletest ${NONSTOP_GTEST_DIR}/googlemock)
target_compile_options(nonstop_gtest PRIVATE -w)
if(NONSTOP_WASM)
  target_compile_definitions(nonstop_gtest PUBLIC
    GTEST_HAS_PTHREAD=0 GTEST_HAS_STREAM_REDIRECTION=0 GTEST_HAS_DEATH_TEST=0
    GTEST_HAS_EXCEPTIONS=0 GTEST_HAS_RTTI=0 GTEST_HAS_FILE_SYSTEM=1)
else()
  find_package(Threads REQUIRED)
  target_link_libraries(nonstop_gtest PUBLIC Threads::Threads)
endif()
