// Models refuse what they cannot read with one line that names feature and table.
#include <nestpipe/math/plain.hpp>
#include <nestpipe/model/dcn.hpp>
#include <nestpipe/model/deepfm.hpp>
#include <nestpipe/model/dlrm.hpp>
#include <nestpipe/model/fm.hpp>
#include <nestpipe/model/logistic.hpp>

#include <doctest/doctest.h>

using namespace nestpipe;

namespace {

struct setup {
  std::size_t dim_a = 4, dim_b = 4;
  pooling pooling_b = pooling::sum;
  std::size_t labels = 1, dense = 2;
  pooling pooling_a = pooling::sum;
};

// The message of attach, empty if it took the layout.
template <class M>
std::string complaint(M m, setup const& s) {
  embedding_layout const layout{{{"users", s.dim_a}, {"items", s.dim_b}}, {{"user", "users", s.pooling_a}, {"item", "items", s.pooling_b}}};
  try {
    m.attach({schema{{"user", "item"}, s.dense, s.labels}, layout, model::task::binary});
  } catch (config_error const& e) {
    return e.what();
  }
  return "";
}

bool names_item(std::string const& text) {
  return text.find("feature item") != std::string::npos && text.find("table items") != std::string::npos && text.find('\n') == std::string::npos;
}

}  // namespace

TEST_CASE("dims and poolings that do not fit are refused by name") {
  using P = math::plain;
  model::logistic<float, P> logistic;
  CHECK(complaint(logistic, {.dim_a = 1, .dim_b = 1}) == "");
  CHECK(complaint(logistic, {.dim_a = 1, .dim_b = 1, .pooling_b = pooling::mean}) == "");
  CHECK(names_item(complaint(logistic, {.dim_a = 1, .dim_b = 2})));
  CHECK(names_item(complaint(logistic, {.dim_a = 1, .dim_b = 1, .pooling_b = pooling::none})));
  CHECK(names_item(complaint(logistic, {.dim_a = 1, .dim_b = 1, .pooling_b = pooling::sum_and_squares})));
  CHECK(complaint(logistic, {.dim_a = 1, .dim_b = 1, .labels = 2}).find("logistic_options.labels") != std::string::npos);

  auto const machine = [](auto const& m) {
    setup s{.dim_a = 5, .dim_b = 5, .pooling_b = pooling::sum_and_squares, .pooling_a = pooling::sum_and_squares};
    CHECK(complaint(m, s) == "");
    s.dim_b = 6;
    CHECK(names_item(complaint(m, s)));
    s.dim_b = 5;
    s.pooling_b = pooling::mean;
    CHECK(names_item(complaint(m, s)));
    s.pooling_b = pooling::sum_and_squares;
    s.dim_a = s.dim_b = 1;
    CHECK(complaint(m, s).find("feature user") != std::string::npos);
  };
  machine(model::fm<float, P>{});
  machine(model::deepfm<float, P>{});

  model::dlrm<float, P> dlrm;
  CHECK(complaint(dlrm, {}) == "");
  CHECK(complaint(dlrm, {.pooling_b = pooling::mean}) == "");
  CHECK(complaint(dlrm, {.dense = 0}) == "");
  CHECK(names_item(complaint(dlrm, {.dim_b = 5})));
  CHECK(names_item(complaint(dlrm, {.pooling_b = pooling::none})));
  CHECK(complaint(model::dlrm<float, P>{{.bottom = {0}}}, {}).find("bottom") != std::string::npos);

  model::dcn<float, P> dcn;
  CHECK(complaint(dcn, {.dim_b = 7, .pooling_b = pooling::mean}) == "");
  CHECK(names_item(complaint(dcn, {.pooling_b = pooling::sum_and_squares})));
}

TEST_CASE("what a model asks of its tables") {
  CHECK(model::logistic<>{}.request(16).dim == 1);
  CHECK(model::logistic<>{}.request(16).init.distribution == row_init::kind::zeros);
  model::embedding_request const fm = model::fm<>{}.request(16);
  CHECK(fm.dim == 17);
  CHECK(fm.pooling == pooling::sum_and_squares);
  CHECK(fm.init.zero_prefix == 1);
  CHECK(model::deepfm<>{{.labels = 3}}.request(4).dim == 15);
  CHECK(model::dlrm<>{}.request(16).dim == 16);
  CHECK(model::dcn<>{}.request(9).pooling == pooling::sum);
  CHECK_THROWS_AS(model::fm<>{{.labels = 0}}, config_error);
}
