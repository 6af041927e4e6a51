#pragma once
/// @file
/// The safetensors format: 8 bytes with the length of the header, the header (JSON: name to type, shape and place of a tensor),
/// then the tensors, back to back, little-endian (https://github.com/huggingface/safetensors, "Format").

#include <nestpipe/checkpoint/detail/file.hpp>
#include <nestpipe/checkpoint/json.hpp>

#include <algorithm>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

namespace nestpipe::checkpoint {

/// Name of an element type in the format.
template <class T>
constexpr char const* element_name() {
  if constexpr (std::is_same_v<T, float>) return "F32";
  if constexpr (std::is_same_v<T, std::uint64_t>) return "U64";
  if constexpr (std::is_same_v<T, std::int64_t>) return "I64";
  if constexpr (std::is_same_v<T, std::uint8_t>) return "U8";
}
/// Bytes of an element, 0 if the type is not known here.
constexpr std::size_t element_bytes(std::string_view type) {
  return type == "F32" ? 4 : type == "U64" || type == "I64" ? 8 : type == "U8" ? 1 : 0;
}

/// Collects tensors and writes them, in the order given, to one file. The data must live until write().
class safetensors_writer {
 public:
  /// @param shape  its product is data.size(); row-major. @throws config_error on a doubled name
  template <class T>
  void add(std::string name, std::vector<std::uint64_t> shape, std::span<T const> data) {
    std::uint64_t elements = 1;
    for (std::uint64_t const n : shape) elements *= n;
    require(elements == data.size(), "safetensors: the shape does not fit the data", "tensor " + name);
    for (auto const& t : tensors_) require(t.name != name, "safetensors: two tensors have one name", "tensor " + name, "rename one");
    require(name != "__metadata__", "safetensors: this name is reserved", name, "rename it");
    tensors_.push_back({std::move(name), element_name<T>(), std::move(shape), std::as_bytes(data)});
  }
  /// Text that readers show and nothing depends on.
  void metadata(std::string key, std::string value) { metadata_.emplace_back(std::move(key), std::move(value)); }

  /// Writes a new file, durably. @throws error
  detail::file_sum write(std::filesystem::path const& path) const {
    std::string const head = header();
    std::uint64_t const length = head.size();
    std::vector<std::span<std::byte const>> pieces{std::as_bytes(std::span{&length, 1}), std::as_bytes(std::span{head.data(), head.size()})};
    for (auto const& t : tensors_) pieces.push_back(t.data);
    return detail::write_file(path, pieces);
  }

 private:
  struct tensor {
    std::string name;
    char const* type;
    std::vector<std::uint64_t> shape;
    std::span<std::byte const> data;
  };

  // Filled up with spaces, so that the data begin at a multiple of 8 bytes.
  std::string header() const {
    json_writer w;
    w.open('{');
    if (!metadata_.empty()) {
      w.key("__metadata__").open('{');
      for (auto const& [key, value] : metadata_) w.key(key).value(value);
      w.close('}');
    }
    std::uint64_t at = 0;
    for (auto const& t : tensors_) {
      w.key(t.name).open('{').key("dtype").value(t.type).key("shape").open('[');
      for (std::uint64_t const n : t.shape) w.value(n);
      w.close(']').key("data_offsets").open('[').value(at).value(at + t.data.size()).close(']').close('}');
      at += t.data.size();
    }
    w.close('}');
    std::string text = w.take();
    text.append((8 - text.size() % 8) % 8, ' ');
    return text;
  }

  std::vector<tensor> tensors_;
  std::vector<std::pair<std::string, std::string>> metadata_;
};

/// The tensors of a file in memory. @pre the bytes outlive the view
class safetensors_view {
 public:
  struct tensor {
    std::string name;
    std::string type;
    std::vector<std::uint64_t> shape;
    std::span<std::byte const> data;
  };

  /// Checks all of the header: every byte of data belongs to exactly one tensor of fitting size.
  /// @param where  named in messages. @throws data_error
  safetensors_view(std::span<std::byte const> bytes, std::string where) : where_{std::move(where)} {
    try {
      parse(bytes);
    } catch (data_error const& e) {
      throw data_error{std::string{"not a safetensors file: "} + e.what(), where_};
    }
  }

  std::span<tensor const> tensors() const { return tensors_; }
  tensor const* find(std::string_view name) const {
    for (auto const& t : tensors_) {
      if (t.name == name) return &t;
    }
    return nullptr;
  }

  /// Copies a tensor of this type and shape. @throws data_error naming the tensor and both shapes
  template <class T>
  void read(std::string_view name, std::vector<std::uint64_t> const& shape, std::span<T> out) const {
    tensor const* const t = find(name);
    if (t == nullptr) throw data_error{"a tensor is missing: " + std::string{name}, where_};
    std::string const wanted = text(element_name<T>(), shape);
    if (text(t->type, t->shape) != wanted || t->data.size() != out.size_bytes())
      throw data_error{"tensor " + std::string{name} + " is " + text(t->type, t->shape) + ", expected " + wanted, where_};
    if (!out.empty()) std::memcpy(out.data(), t->data.data(), out.size_bytes());
  }

 private:
  static std::string text(std::string_view type, std::vector<std::uint64_t> const& shape) {
    std::string s{type};
    s += " (";
    for (std::size_t i = 0; i < shape.size(); ++i) s.append(i == 0 ? "" : ", ").append(std::to_string(shape[i]));
    return s + ")";
  }

  void parse(std::span<std::byte const> bytes) {
    std::uint64_t length = 0;
    if (bytes.size() < sizeof length) throw data_error{"it is cut short"};
    std::memcpy(&length, bytes.data(), sizeof length);
    if (length > bytes.size() - sizeof length) throw data_error{"it is cut short"};
    std::span<std::byte const> const data = bytes.subspan(sizeof length + length);
    json const head = json::parse({reinterpret_cast<char const*>(bytes.data()) + sizeof length, length});
    for (auto const& [name, value] : head.fields()) {
      if (name == "__metadata__") continue;
      tensor t{name, value.at("dtype").text(), {}, {}};
      std::size_t const width = element_bytes(t.type);
      if (width == 0) throw data_error{"element type " + t.type + " of tensor " + name + " is not supported"};
      std::uint64_t size = width;
      for (auto const& n : value.at("shape").items()) {
        t.shape.push_back(n.u64());
        if (__builtin_mul_overflow(size, t.shape.back(), &size)) throw data_error{"the shape of tensor " + name + " is too large"};
      }
      auto const& place = value.at("data_offsets").items();
      if (place.size() != 2) throw data_error{"data_offsets of tensor " + name + " are not two"};
      std::uint64_t const begin = place[0].u64();
      std::uint64_t const end = place[1].u64();
      if (begin > end || end > data.size() || end - begin != size) throw data_error{"the place of tensor " + name + " does not fit its shape and the file"};
      t.data = data.subspan(begin, size);
      tensors_.push_back(std::move(t));
    }
    std::vector<tensor const*> order;
    for (auto const& t : tensors_) order.push_back(&t);
    std::sort(order.begin(), order.end(), [](auto const* a, auto const* b) {
      return a->data.data() != b->data.data() ? a->data.data() < b->data.data() : a->data.size() < b->data.size();
    });
    std::byte const* at = data.data();
    for (auto const* t : order) {
      if (t->data.data() != at) throw data_error{"tensors overlap or leave a gap"};
      at += t->data.size();
    }
    if (at != data.data() + data.size()) throw data_error{"bytes follow the last tensor, or the file is cut short"};
  }

  std::string where_;
  std::vector<tensor> tensors_;
};

}  // namespace nestpipe::checkpoint
