// expect: nestpipe: the models of model::any_of must have one scalar type
#include <nestpipe/math/plain.hpp>
#include <nestpipe/model/any_of.hpp>
#include <nestpipe/model/fm.hpp>
#include <nestpipe/model/logistic.hpp>

namespace np = nestpipe;
np::model::any_of<np::model::fm<float, np::math::plain>, np::model::logistic<double, np::math::plain>> mixed;
