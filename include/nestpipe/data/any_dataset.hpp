#pragma once
/// @file
/// A dataset chosen at run time, for programs whose users name the format. Virtual calls are per batch, not per row.

#include <nestpipe/data/data.hpp>
#include <nestpipe/data/line_block.hpp>
#include <nestpipe/data/row_stream.hpp>

#include <concepts>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace nestpipe::data {

class any_dataset {
 public:
  /// Lines or row numbers, whatever the dataset inside frames.
  class block {
   public:
    block() = default;
    std::size_t size() const {
      return std::visit([](auto const& b) { return b.size(); }, held_);
    }
    void serialize(std::vector<std::byte>& out) const {
      std::visit([&](auto const& b) { b.serialize(out); }, held_);
      out.push_back(static_cast<std::byte>(held_.index()));
    }
    void deserialize(std::span<std::byte const> in) {
      if (in.empty() || std::to_integer<std::size_t>(in.back()) > 1) throw data_error{"a block of rows arrived damaged"};
      if (std::to_integer<std::size_t>(in.back()) == 0) {
        get<row_block>().deserialize(in.first(in.size() - 1));
      } else {
        get<line_block>().deserialize(in.first(in.size() - 1));
      }
    }
    /// The block of the given kind, made if another kind was held.
    template <class B>
    B& get() {
      if (B* held = std::get_if<B>(&held_)) return *held;
      return held_.template emplace<B>();
    }
    /// @throws data_error when another kind is held: it came from another dataset.
    template <class B>
    B const& get() const {
      if (B const* held = std::get_if<B>(&held_)) return *held;
      throw data_error{"a block of rows was framed by another kind of dataset"};
    }

   private:
    std::variant<row_block, line_block> held_;
  };

  /// @tparam D  dataset whose block is a line_block, a row_block, or this class's own
  template <class D>
    requires(!std::same_as<std::remove_cvref_t<D>, any_dataset>)
  any_dataset(D dataset) : held_{std::make_unique<model<D>>(std::move(dataset))} {  // NOLINT(google-explicit-constructor)
    static_assert(audit<D>());
    static_assert(std::same_as<typename D::block, line_block> || std::same_as<typename D::block, row_block> || std::same_as<typename D::block, block>,
                  "any_dataset: the block of a dataset must be data::line_block or data::row_block");
  }
  any_dataset(any_dataset const& other) : held_{other.held_->clone()} {}
  any_dataset& operator=(any_dataset const& other) {
    if (this != &other) held_ = other.held_->clone();
    return *this;
  }
  any_dataset(any_dataset&&) noexcept = default;
  any_dataset& operator=(any_dataset&&) noexcept = default;
  ~any_dataset() = default;

  struct nestpipe::schema schema() const { return held_->schema(); }
  std::size_t frame(block& b, std::size_t rows) { return held_->frame(b, rows); }
  void parse(block const& b, std::size_t first, std::size_t last, sample_block& out) const { held_->parse(b, first, last, out); }
  void rewind(std::uint64_t epoch) { held_->rewind(epoch); }
  data_position position() const { return held_->position(); }
  void seek(data_position to) { held_->seek(to); }
  std::optional<std::uint64_t> size_hint() const { return held_->size_hint(); }
  bool single_pass() const { return held_->single_pass(); }
  std::vector<std::string> complaints() const { return held_->complaints(); }
  void keep_missing(bool keep) { held_->keep_missing(keep); }

 private:
  struct interface {
    interface() = default;
    interface(interface const&) = default;
    interface& operator=(interface const&) = default;
    virtual ~interface() = default;
    virtual std::unique_ptr<interface> clone() const = 0;
    virtual struct nestpipe::schema schema() const = 0;
    virtual std::size_t frame(block&, std::size_t) = 0;
    virtual void parse(block const&, std::size_t, std::size_t, sample_block&) const = 0;
    virtual void rewind(std::uint64_t) = 0;
    virtual data_position position() const = 0;
    virtual void seek(data_position) = 0;
    virtual std::optional<std::uint64_t> size_hint() const = 0;
    virtual bool single_pass() const = 0;
    virtual std::vector<std::string> complaints() const = 0;
    virtual void keep_missing(bool) = 0;
  };

  template <class D>
  struct model final : interface {
    explicit model(D d) : dataset{std::move(d)} {}
    static decltype(auto) inside(block& b) {
      if constexpr (std::same_as<typename D::block, block>) return (b);
      else return b.template get<typename D::block>();
    }
    static decltype(auto) inside(block const& b) {
      if constexpr (std::same_as<typename D::block, block>) return (b);
      else return b.template get<typename D::block>();
    }
    std::unique_ptr<interface> clone() const override { return std::make_unique<model>(*this); }
    struct nestpipe::schema schema() const override { return dataset.schema(); }
    std::size_t frame(block& b, std::size_t rows) override { return dataset.frame(inside(b), rows); }
    void parse(block const& b, std::size_t first, std::size_t last, sample_block& out) const override { dataset.parse(inside(b), first, last, out); }
    void rewind(std::uint64_t epoch) override { dataset.rewind(epoch); }
    data_position position() const override { return dataset.position(); }
    void seek(data_position to) override { dataset.seek(to); }
    std::optional<std::uint64_t> size_hint() const override { return dataset.size_hint(); }
    bool single_pass() const override {
      if constexpr (requires { dataset.single_pass(); }) return dataset.single_pass();
      return false;
    }
    std::vector<std::string> complaints() const override {
      if constexpr (requires { dataset.complaints(); }) return dataset.complaints();
      return {};
    }
    void keep_missing(bool keep) override {
      if constexpr (requires { dataset.keep_missing(keep); }) dataset.keep_missing(keep);
    }
    D dataset;
  };

  std::unique_ptr<interface> held_;
};

}  // namespace nestpipe::data
