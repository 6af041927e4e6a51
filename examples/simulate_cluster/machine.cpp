#include "machine.hpp"

#include <nestpipe/sim/parametric.hpp>
#include <nestpipe/sim/profile.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <fstream>

namespace simulate_cluster {

namespace np = nestpipe;
namespace sim = np::sim;
using json = nlohmann::json;

namespace {

json read(std::string const& path) {
  std::ifstream in{path};
  if (!in) throw np::data_error{"cannot open the profile", path, "check the path; the built-in profile is named nestpipe-industrial"};
  try {
    json j = json::parse(in);
    if (!j.is_object()) throw np::data_error{"the profile is no JSON object", path};
    return j;
  } catch (json::exception const& e) {
    throw np::data_error{std::string{"the profile is no JSON: "} + e.what(), path};
  }
}

double number(json const& object, std::string const& name, std::string const& path) {
  auto const it = object.find(name);
  if (it == object.end() || !it->is_number()) throw np::data_error{"the profile has no number '" + name + "'", path, "write it with train_ctr --schedule sequential --report"};
  double const x = it->get<double>();
  if (!std::isfinite(x) || x < 0) throw np::data_error{"the profile's '" + name + "' is not a finite number, 0 or more", path};
  return x;
}

json const& part(json const& object, std::string const& name, std::string const& path) {
  auto const it = object.find(name);
  if (it == object.end() || !it->is_object()) throw np::data_error{"the profile has no object '" + name + "'", path, "write it with train_ctr --schedule sequential --report"};
  return *it;
}

std::uint32_t count(json const& object, std::string const& name, std::string const& path) {
  double const x = number(object, name, path);
  if (x < 1 || x > 1e9 || x != std::floor(x)) throw np::data_error{"the profile's '" + name + "' is not a count", path};
  return static_cast<std::uint32_t>(x);
}

struct taken {
  sim::measured_run run;
  std::size_t ranks = 1;
};

taken measured(json const& j, std::string const& path, bool one_link) {
  json const& c = part(j, "configuration", path);
  auto const schedule = c.value("schedule", std::string{});
  if (schedule != "sequential") throw np::data_error{"the profile is of a run with schedule '" + schedule + "'", path, "profile a run with --schedule sequential: only there do stages not overlap"};
  json const& stages = part(j, "stage_seconds", path);
  taken t;
  for (std::size_t s = 0; s < np::exec::stage_count; ++s) t.run.times.total[s] = number(stages, std::string{np::exec::name(static_cast<np::exec::stage>(s))}, path);
  t.run.times.exposed[static_cast<std::size_t>(np::exec::stage::reduce_dense)] = number(part(j, "exposed_seconds", path), "reduce_dense", path);
  t.run.steps = count(j, "steps", path);
  t.run.micro_batches = count(c, "micro_batches", path);
  t.run.step_seconds = (number(j, "compute_seconds", path) + number(j, "idle_seconds", path)) / static_cast<double>(t.run.steps);
  t.run.one_link = one_link;
  t.ranks = count(c, "ranks", path);
  return t;
}

sim::parametric described(json const& j, std::string const& path) {
  sim::parametric p;
  std::vector<std::pair<std::string, double*>> const fields{{"samples", &p.samples},
                                                            {"keys", &p.keys},
                                                            {"sample_bytes", &p.sample_bytes},
                                                            {"row_bytes", &p.row_bytes},
                                                            {"key_bytes", &p.key_bytes},
                                                            {"growth", &p.growth},
                                                            {"overlap", &p.overlap},
                                                            {"read_samples", &p.read_samples},
                                                            {"staged_bytes", &p.staged_bytes},
                                                            {"routed_keys", &p.routed_keys},
                                                            {"retrieved_rows", &p.retrieved_rows},
                                                            {"written_rows", &p.written_rows},
                                                            {"updated_rows", &p.updated_rows},
                                                            {"refreshed_rows", &p.refreshed_rows},
                                                            {"forward", &p.forward},
                                                            {"input_backward", &p.input_backward},
                                                            {"weight_backward", &p.weight_backward},
                                                            {"dense_bytes", &p.dense_bytes},
                                                            {"latency_inside", &p.network.inside.latency},
                                                            {"bytes_per_second_inside", &p.network.inside.bytes_per_second},
                                                            {"latency_between", &p.network.between.latency},
                                                            {"bytes_per_second_between", &p.network.between.bytes_per_second},
                                                            {"skew_per_rank", &p.uneven.per_rank},
                                                            {"skew_per_op", &p.uneven.per_op}};
  for (auto const& [key, value] : j.items()) {
    if (key == "workers") {
      p.workers = count(j, key, path);
    } else if (key == "micro_batches") {
      p.micro_batches = count(j, key, path);
    } else if (key == "workers_per_node") {
      p.network.workers_per_node = count(j, key, path);
    } else {
      auto const at = std::find_if(fields.begin(), fields.end(), [&](auto const& f) { return f.first == key; });
      if (at == fields.end()) throw np::data_error{"a described machine has no '" + key + "'", path, "the names are those of sim::parametric and of its links"};
      *at->second = number(j, key, path);
      bool const rate = at->second >= &p.read_samples && at->second <= &p.refreshed_rows;
      if (*at->second == 0 && (rate || key.starts_with("bytes_per_second"))) throw np::data_error{"the profile's '" + key + "' is a rate of 0", path, "leave it out for a stage that takes no time"};
    }
  }
  if (p.overlap > 1) throw np::data_error{"the profile's 'overlap' is a share, at most 1", path};
  return p;
}

machine published(options const& o) {
  namespace ind = sim::industrial;
  machine m;
  m.name = "nestpipe-industrial";
  m.industrial = true;
  m.ranks_differ = o.skew > 0;
  m.workers = {static_cast<std::size_t>(ind::small), static_cast<std::size_t>(ind::large)};
  m.micro_batches = ind::micro_batches;
  m.note = o.law == ind::law::power ? "lookup and exchange grow as a power of the workers, through 128 and 1,536" : "lookup and exchange grow along a line, through 128 and 1,536";
  m.at = [o](std::size_t workers, std::uint32_t n) -> cost {
    auto p = ind::at(static_cast<double>(workers), n, o.law);
    p.early_share = o.early_share;
    p.uneven = {.per_op = o.skew, .seed = o.seed};
    return p;
  };
  return m;
}

}  // namespace

namespace {

machine opened(options const& o) {
  if (o.profiles[0] == "nestpipe-industrial") return published(o);
  json const first = read(o.profiles[0]);
  machine m;
  m.name = o.profiles[0];
  if (first.contains("parametric")) {
    np::require(o.profiles.size() == 1, "a described machine stands alone", o.profiles[1], "give one --profile");
    auto p = described(part(first, "parametric", o.profiles[0]), o.profiles[0]);
    m.workers = {p.workers};
    m.micro_batches = p.micro_batches;
    m.ranks_differ = p.uneven.per_rank > 0 || p.uneven.per_op > 0 || o.skew > 0;
    m.note = "links and rates are described, not measured; each worker keeps its batch";
    if (o.skew > 0) p.uneven = {.per_rank = p.uneven.per_rank, .per_op = o.skew, .seed = o.seed};
    m.at = [p](std::size_t workers, std::uint32_t n) -> cost {
      auto q = p;
      q.workers = workers;
      q.micro_batches = n;
      return q;
    };
    return m;
  }
  m.one_link = o.link != "separate";
  taken const a = measured(first, o.profiles[0], m.one_link);
  sim::profile p = sim::fit(a.run);
  if (o.profiles.size() == 2) {
    taken const b = measured(read(o.profiles[1]), o.profiles[1], m.one_link);
    np::require(a.ranks == b.ranks, "the two profiles are of different numbers of ranks", std::to_string(a.ranks) + " and " + std::to_string(b.ranks), "vary --micro-batches only");
    p = sim::fit(a.run, b.run);
    m.name += ", " + o.profiles[1];
  }
  p.early_share = o.early_share;
  p.uneven = {.per_op = o.skew, .seed = o.seed};
  m.workers = {a.ranks};
  m.micro_batches = a.run.micro_batches;
  m.hand_over = p.hand_over;
  m.ranks_differ = o.skew > 0;
  m.note = "measured with " + std::to_string(a.ranks) + " rank(s); each worker keeps its batch, an exchange's latency grows with its peers and its bytes with what leaves the worker; cores that the ranks share are not modelled";
  if (o.profiles.size() == 1) m.note += "; one run does not tell latency from bandwidth, so other --micro-batches are rough";
  std::size_t const ranks = a.ranks;
  m.at = [p, ranks](std::size_t workers, std::uint32_t n) -> cost {
    auto q = sim::with_workers(p, ranks, workers);
    q.micro_batches = n;
    return q;
  };
  return m;
}

}  // namespace

machine open(options const& o) {
  machine m = opened(o);
  if (!o.link.empty()) m.one_link = o.link == "shared";
  m.note += m.one_link ? "; one link for all that crosses the network" : "; keys, rows and the all-reduce do not disturb each other";
  return m;
}

}  // namespace simulate_cluster
