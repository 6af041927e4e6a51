#pragma once
/// @file
/// Work that every rank does and that fails everywhere when it fails anywhere.

#include <nestpipe/comm/comm.hpp>
#include <nestpipe/core/error.hpp>

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <vector>

namespace nestpipe::checkpoint::detail {

/// Calls `f` on every rank and waits for all. Where it threw on one, all throw: the same message, the same type (config_error,
/// data_error or error). Collective; f itself may be collective.
/// @param what  "cannot save the checkpoint" or the like: begins the message
template <class Channel, class F>
void together(Channel& channel, std::size_t rank, std::size_t world_size, std::string const& what, comm::call_site at, F&& f) {
  enum : std::uint64_t { fine, other, config, data };
  std::uint64_t kind = fine;
  std::string problem;
  try {
    f();
  } catch (comm_error const&) {
    throw;  // the ranks cannot talk any more
  } catch (cancelled const&) {
    throw;
  } catch (config_error const& e) {
    kind = config, problem = e.what();
  } catch (data_error const& e) {
    kind = data, problem = e.what();
  } catch (std::exception const& e) {
    kind = other, problem = e.what();
  } catch (...) {
    kind = other, problem = "an exception that is no std::exception";
  }
  std::array<std::uint64_t, 2> const mine{kind, problem.size()};
  std::vector<std::array<std::uint64_t, 2>> all(world_size);
  channel.all_gather(std::as_bytes(std::span{mine}), std::as_writable_bytes(std::span{all}), at);
  std::size_t longest = 0;
  bool failed = false;
  for (auto const& a : all) {
    failed = failed || a[0] != fine;
    longest = std::max<std::size_t>(longest, a[1]);
  }
  if (!failed) return;
  problem.resize(longest, ' ');
  std::vector<char> texts(longest * world_size);
  channel.all_gather(std::as_bytes(std::span{problem.data(), problem.size()}), std::as_writable_bytes(std::span{texts}), at);
  std::string message = what;
  std::string first;
  bool alike = true;
  std::uint64_t first_kind = fine;
  for (std::size_t r = 0; r < world_size; ++r) {
    std::string const text{texts.data() + r * longest, static_cast<std::size_t>(all[r][1])};
    if (first_kind == fine && all[r][0] != fine) {
      first_kind = all[r][0];
      first = text;
      message += ": ";
      rank = r;
    }
    alike = alike && all[r][0] != fine && text == first;
  }
  if (!alike) message += "rank " + std::to_string(rank) + ": ";
  message += first;
  if (first_kind == config) throw config_error{message};
  if (first_kind == data) throw data_error{message};
  throw error{message};
}

}  // namespace nestpipe::checkpoint::detail
