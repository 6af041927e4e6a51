// The one translation unit with doctest's main; nestpipe_add_test links it into every test without OWN_MAIN.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>
