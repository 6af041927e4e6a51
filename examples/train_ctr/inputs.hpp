#pragma once
/// @file
/// The datasets that the command line describes.

#include "options.hpp"

#include <nestpipe/data/any_dataset.hpp>

#include <optional>

namespace train_ctr {

struct inputs {
  nestpipe::data::any_dataset train;
  std::optional<nestpipe::data::any_dataset> valid;
  std::optional<nestpipe::data::any_dataset> test;
  std::optional<double> best_auc{};  ///< of the synthetic stream: no model can expect more
  std::string transform{};           ///< what tells these inputs from others made of the same columns: goes into checkpoints
  std::string order{};               ///< which rows come in which order
};

/// Opens everything, so that a missing file is found before training, and makes the passes that statistics and
/// vocabularies need. @throws data_error, config_error
inputs open_inputs(options const& o);

}  // namespace train_ctr
