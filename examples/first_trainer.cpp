// ctest:
#include <nestpipe/data/synthetic.hpp>
#include <nestpipe/math/default.hpp>  // the dense backend CMake found: oneDNN or Eigen
#include <nestpipe/nestpipe.hpp>

#include <cstdio>

namespace np = nestpipe;

using trainer_type = np::trainer<np::model::dlrm<>,                // dense network and loss
                                 np::storage::hashed<>,            // where this rank's rows live
                                 np::comm::threads,                // how ranks exchange keys, rows, gradients
                                 np::schedule::nested,             // what overlaps
                                 np::optimizer::rowwise_adagrad,   // for rows
                                 np::optimizer::adam>;             // for dense parameters

int main() {
  np::comm::threads::run(2, [](np::comm::threads& comm) {
    trainer_type trainer{{.batch_size = 1024, .micro_batches = 4}, comm};
    np::fit_result const trained = trainer.fit(np::data::synthetic{{.rows = 50'000}});
    np::metric::summary const quality = trainer.evaluate(np::data::synthetic{{.rows = 10'000, .first_row = 50'000}});
    if (comm.rank() == 0) std::printf("loss %.4f, AUC %.4f\n", trained.loss, quality.auc);
  });
}
