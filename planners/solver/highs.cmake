# How HiGHS is compiled when cargo builds it: many of its files at a time, and without much optimisation where nothing
# else is optimised either. `.cargo/config.toml` names this file; what is called a toolchain file is the one place that a
# build reads which is not a part of HiGHS.
# The compiler is the one that cargo takes for other C, which is not CMake's own first choice everywhere.
if(NOT DEFINED ENV{CC} AND NOT DEFINED ENV{CXX})
  set(CMAKE_C_COMPILER cc)
  set(CMAKE_CXX_COMPILER c++)
endif()
set(CMAKE_UNITY_BUILD ON CACHE BOOL "")
set(CMAKE_UNITY_BUILD_BATCH_SIZE 48 CACHE STRING "")
# OPT_LEVEL is what cargo tells build scripts; HiGHS itself would always take -O3.
if("$ENV{OPT_LEVEL}" LESS 2)
  set(CMAKE_C_FLAGS_RELEASE "-Og -DNDEBUG" CACHE STRING "")
  set(CMAKE_CXX_FLAGS_RELEASE "-Og -DNDEBUG" CACHE STRING "")
endif()
