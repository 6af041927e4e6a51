#pragma once
/// @file
/// A run from opening the data to the table at its end.

#include "options.hpp"

namespace train_ctr {

/// Opens the data, starts the ranks, trains, evaluates, writes the files. @returns the exit status @throws whatever went wrong
int train(int argc, char** argv, options const& o);

/// Whether this process speaks for its machine: true but for the further processes of an MPI job.
bool first_of_machine();

}  // namespace train_ctr
