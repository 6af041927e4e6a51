#pragma once
/// @file
/// Checkpoints of one run side by side: `<parent>/step-000123`, of which the last few are kept.

#include <nestpipe/checkpoint/checkpoint.hpp>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace nestpipe::checkpoint {

/// A checkpoint by its number.
struct numbered_checkpoint {
  std::uint64_t step = 0;
  std::filesystem::path directory;
};

/// `<parent>/step-000123`: six digits, more when they do not do.
inline std::filesystem::path step_directory(std::filesystem::path const& parent, std::uint64_t step) {
  std::string digits = std::to_string(step);
  if (digits.size() < 6) digits.insert(0, 6 - digits.size(), '0');
  return parent / ("step-" + digits);
}

namespace detail {

/// The step of "step-<digits>" or of what a save leaves beside it ("step-<digits>.tmp-<id>", ".old-<id>").
inline std::optional<std::uint64_t> step_of(std::string_view name, bool unfinished) {
  if (!name.starts_with("step-")) return std::nullopt;
  std::string_view const stem = name.substr(0, name.find('.'));
  if (unfinished ? !is_sibling(name, stem, ".tmp-") && !is_sibling(name, stem, ".old-") : stem != name) return std::nullopt;
  std::uint64_t step = 0;
  auto const r = std::from_chars(stem.data() + 5, stem.data() + stem.size(), step);
  // Exactly what step_directory writes: other names are not ours.
  if (r.ec != std::errc{} || r.ptr != stem.data() + stem.size() || step_directory({}, step).string() != stem) return std::nullopt;
  return step;
}

}  // namespace detail

/// All complete checkpoints of a run, ascending; none if there is no such directory. One whose replacement was cut off counts
/// (its directory is absent then, and load finds the old one beside it).
inline std::vector<numbered_checkpoint> numbered(std::filesystem::path const& parent) {
  std::vector<numbered_checkpoint> found;
  std::error_code missing;
  for (auto const& entry : std::filesystem::directory_iterator{parent, missing}) {
    std::string const name = entry.path().filename().string();
    if (!detail::holds_checkpoint(entry.path())) continue;
    auto step = detail::step_of(name, false);
    if (!step && name.find(".old-") != std::string::npos) step = detail::step_of(name, true);
    if (step) found.push_back({*step, step_directory(parent, *step)});
  }
  std::sort(found.begin(), found.end(), [](auto const& a, auto const& b) { return a.step < b.step; });
  found.erase(std::unique(found.begin(), found.end(), [](auto const& a, auto const& b) { return a.step == b.step; }), found.end());
  return found;
}

/// The checkpoint with the highest step, if there is one.
inline std::optional<std::filesystem::path> latest(std::filesystem::path const& parent) {
  auto const all = numbered(parent);
  if (all.empty()) return std::nullopt;
  return all.back().directory;
}

/// Puts in order what crashes have left beside any checkpoint of a run. Not collective: one rank calls it.
/// @param own  id of a save under way, whose directory stays
inline void tidy_all(std::filesystem::path const& parent, std::string const& own = {}) {
  std::vector<std::uint64_t> left;
  std::error_code missing;
  for (auto const& entry : std::filesystem::directory_iterator{parent, missing}) {
    if (auto const step = detail::step_of(entry.path().filename().string(), true)) left.push_back(*step);
  }
  for (std::uint64_t const step : left) staged_directory::tidy(step_directory(parent, step), own);
}

/// Removes all but the `keep` highest steps and those that their deltas are made from, and what crashes have left beside any. Not
/// collective: one rank calls it.
/// @param keep  at least 1
/// @throws data_error, removing nothing, if a manifest that must say what a delta is made from is damaged
inline void keep_last(std::filesystem::path const& parent, std::size_t keep) {
  namespace fs = std::filesystem;
  require(keep >= 1, "at least one checkpoint must be kept", parent.string(), "set keep to 1 or more");
  tidy_all(parent);
  auto const all = numbered(parent);
  std::vector<std::string> needed;
  for (std::size_t i = all.size(); i-- > 0;) {
    std::string const name = all[i].directory.filename().string();
    if (i + keep < all.size() && std::find(needed.begin(), needed.end(), name) == needed.end()) continue;
    std::string const behind = read_manifest(all[i].directory).parent.directory;
    needed.push_back(name);
    if (!behind.empty()) needed.push_back(behind);
  }
  for (std::size_t i = all.size(); i-- > 0;) {  // deltas before what they are made from
    if (std::find(needed.begin(), needed.end(), all[i].directory.filename().string()) != needed.end()) continue;
    // A removal that is cut off must not leave half a checkpoint under its name.
    fs::path const away = detail::sibling(all[i].directory, ".tmp-", detail::fresh_id());
    fs::rename(all[i].directory, away);
    fs::remove_all(away);
  }
}

/// Call before training starts: a run that begins (or resumes) at `step` must not write among checkpoints of later steps, or
/// latest() would return those of another run. @throws config_error
inline void require_no_later(std::filesystem::path const& parent, std::uint64_t step) {
  auto const all = numbered(parent);
  require(all.empty() || all.back().step <= step, "there are checkpoints of later steps than " + std::to_string(step), all.empty() ? std::string{} : all.back().directory.string(),
          "resume from the last one, move them away, or save elsewhere");
}

/// save() to step_directory(parent, engine.step()), then keep_last. Collective.
/// @param keep  checkpoints that stay, this one included; 0: all
/// @return the directory. @throws as save; config_error if there are later steps
template <class Engine>
std::filesystem::path save_numbered(Engine& engine, std::filesystem::path const& parent, data::data_position position, std::size_t keep, save_options const& options = {}) {
  std::size_t const rank = engine.comm().rank();
  std::size_t const world_size = engine.comm().size();
  comm::call_site const at{"save", engine.step()};
  std::filesystem::path const directory = step_directory(parent, engine.step());
  std::string const what = "cannot save the checkpoint " + directory.string();
  detail::together(engine.control(), rank, world_size, what, at, [&] {
    if (rank == 0) require_no_later(parent, engine.step());
  });
  save(engine, directory, position, options);
  detail::together(engine.control(), rank, world_size, "the checkpoint " + directory.string() + " is saved, but older ones cannot be removed", at, [&] {
    if (rank == 0 && keep != 0) keep_last(parent, keep);
  });
  return directory;
}

}  // namespace nestpipe::checkpoint
