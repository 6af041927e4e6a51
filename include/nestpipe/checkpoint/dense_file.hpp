#pragma once
/// @file
/// dense.safetensors: every dense parameter under the model's name for it, (rows, cols) F32, and its optimizer state as
/// `optimizer_state.<name>`, (rows, state floats) F32, the layout of which is in the manifest.

#include <nestpipe/checkpoint/manifest.hpp>
#include <nestpipe/checkpoint/safetensors.hpp>

#include <span>
#include <string>
#include <vector>

namespace nestpipe::checkpoint {

inline std::string state_tensor_name(std::string const& parameter) { return "optimizer_state." + parameter; }

/// @param values, state  flat, parameter after parameter. @throws error, config_error on doubled names
inline detail::file_sum write_dense(std::filesystem::path const& path, std::span<parameter_entry const> parameters, std::span<float const> values, std::span<float const> state) {
  safetensors_writer out;
  for (auto const& p : parameters) {
    out.add(p.name, {p.rows, p.cols}, values.first(p.rows * p.cols));
    values = values.subspan(p.rows * p.cols);
  }
  for (auto const& p : parameters) {
    if (p.state_floats != 0) out.add(state_tensor_name(p.name), {p.rows, p.state_floats}, state.first(p.rows * p.state_floats));
    state = state.subspan(p.rows * p.state_floats);
  }
  return out.write(path);
}

/// The reverse. @throws data_error naming file and tensor
inline void read_dense(std::filesystem::path const& path, detail::file_sum const& sum, std::span<parameter_entry const> parameters, std::span<float> values, std::span<float> state) {
  std::string const where = path.string();
  std::vector<std::byte> bytes;
  detail::read_checked(path, sum, bytes);
  safetensors_view const view{bytes, where};
  for (auto const& p : parameters) {
    view.read(p.name, {p.rows, p.cols}, values.first(p.rows * p.cols));
    values = values.subspan(p.rows * p.cols);
    if (p.state_floats != 0) view.read(state_tensor_name(p.name), {p.rows, p.state_floats}, state.first(p.rows * p.state_floats));
    state = state.subspan(p.rows * p.state_floats);
  }
}

}  // namespace nestpipe::checkpoint
