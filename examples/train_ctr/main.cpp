// ctest: --data synthetic --synthetic-rows 20000 --synthetic-valid-rows 4000 --model logistic --quiet
/// @file
/// train_ctr: trains a click model on a log and says how well it predicts. `train_ctr --help` lists the flags.
///
/// Exit status: 0 done, or stopped by a signal after a whole batch; 2 a bad value on the command line; 1 anything else, with one
/// line on standard error that says what, where and what to do.

#include "monitor.hpp"
#include "session.hpp"

#include <nestpipe/core/error.hpp>

#include <new>

namespace {

using namespace train_ctr;

/// One line however many processes fail alike: the first of each machine says it.
int fail(std::exception const& e, int status) {
  if (first_of_machine()) fail_line(e.what());
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    parsed const p = parse(argc, argv);
    if (p.done) return 0;
    monitor::block_signals(p.chosen.mpi);
    return train(argc, argv, p.chosen);
  } catch (nestpipe::config_error const& e) {
    return fail(e, 2);
  } catch (std::bad_alloc const&) {
    return fail(nestpipe::error{"out of memory", {}, "use fewer rows in flight: a smaller --batch-size or --dim, or more ranks on more machines"}, 1);
  } catch (std::exception const& e) {
    return fail(e, 1);
  }
}
