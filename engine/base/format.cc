// The formatter is our own since libc's brings 14 KB into the module; this is what messages need:
// %s %.*s %c %d %u %x %X %g %f %%, widths, precisions, flags 0 and -, lengths l ll z.
// Numbers come out as printf's, but that the last digit of a decimal tie may differ.
#include "base/format.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "base/check.h"
#include "base/exact_math.h"

namespace nonstop {
namespace {

struct Spec {
  bool left = false;
  bool zeros = false;
  int width = 0;
  int precision = -1;
  int long_count = 0;  // l: 1, ll: 2, z: 1 (size_t is as wide as long on our targets)
};

// Digits of an unsigned number, most significant first.
std::string Digits(uint64_t value, unsigned base, const char* alphabet) {
  char text[24];
  char* begin = text + sizeof(text);
  do {
    *--begin = alphabet[value % base];
    value /= base;
  } while (value != 0);
  return std::string(begin, static_cast<size_t>(text + sizeof(text) - begin));
}

std::string Decimal(uint64_t value) { return Digits(value, 10, "0123456789"); }

double PowerOfTen(int exponent) {
  double power = 1.0;
  for (int i = std::abs(exponent); i > 0; --i) power *= 10.0;
  return exponent < 0 ? 1.0 / power : power;
}

struct Scientific {
  std::string digits;  // `count` of them
  int exponent;        // of the first
};

Scientific ToScientific(double magnitude, int count) {
  if (magnitude == 0.0) return {std::string(static_cast<size_t>(count), '0'), 0};
  int exponent = static_cast<int>(std::floor(ExactLog(magnitude) / 2.302585092994046));
  // Two factors: one power alone may overflow for the smallest numbers.
  const int shift = count - 1 - exponent;
  double scaled = magnitude * PowerOfTen(shift / 2) * PowerOfTen(shift - shift / 2);
  if (std::round(scaled) >= PowerOfTen(count)) {
    scaled /= 10.0;
    ++exponent;
  } else if (std::round(scaled) < PowerOfTen(count - 1)) {
    scaled *= 10.0;
    --exponent;
  }
  return {Decimal(static_cast<uint64_t>(std::round(scaled))), exponent};
}

void StripZeros(std::string* text) {
  while (text->ends_with('0')) text->pop_back();
  if (text->ends_with('.')) text->pop_back();
}

// %g: `precision` significant digits, fixed or with an exponent, without trailing zeros.
std::string General(double magnitude, int precision) {
  if (precision == 0) precision = 1;
  auto [digits, exponent] = ToScientific(magnitude, precision);
  if (exponent >= -4 && exponent < precision) {
    if (exponent < 0) digits.insert(0, static_cast<size_t>(-exponent), '0');
    const auto point = static_cast<size_t>(exponent < 0 ? 1 : exponent + 1);
    digits.insert(point, ".");
    StripZeros(&digits);
    return digits;
  }
  digits.insert(1, ".");
  StripZeros(&digits);
  const std::string power = Decimal(static_cast<uint64_t>(std::abs(exponent)));
  return digits + (exponent < 0 ? "e-" : "e+") + (power.size() < 2 ? "0" : "") + power;
}

// %f, for magnitudes below 1e15.
std::string Fixed(double magnitude, int precision) {
  if (magnitude >= 1e15) return General(magnitude, 16);
  const auto scaled = static_cast<uint64_t>(std::nearbyint(magnitude * PowerOfTen(precision)));
  std::string digits = Decimal(scaled);
  const auto places = static_cast<size_t>(precision);
  if (digits.size() <= places) digits.insert(0, places + 1 - digits.size(), '0');
  if (places > 0) digits.insert(digits.size() - places, ".");
  return digits;
}

std::string Real(double value, char kind, int precision) {
  const double magnitude = std::abs(value);
  std::string text;
  if (std::isnan(value)) {
    return "nan";
  } else if (std::isinf(value)) {
    text = "inf";
  } else {
    const int places = precision < 0 ? 6 : precision;
    text = kind == 'f' ? Fixed(magnitude, places) : General(magnitude, places);
  }
  return std::signbit(value) ? "-" + text : text;
}

void AppendPadded(const std::string& text, const Spec& spec, std::string* out) {
  const auto width = static_cast<size_t>(spec.width);
  const size_t padding = text.size() < width ? width - text.size() : 0;
  if (!spec.left) {
    // Zeros go behind a sign.
    const bool is_signed = spec.zeros && text.starts_with('-');
    if (is_signed) *out += '-';
    out->append(padding, spec.zeros ? '0' : ' ');
    out->append(text, is_signed ? 1 : 0);
  } else {
    *out += text;
    out->append(padding, ' ');
  }
}

class Formatter {
 public:
  Formatter(const char* format, va_list arguments, std::string* out) : next_(format), out_(*out) {
    va_copy(arguments_, arguments);
  }
  ~Formatter() { va_end(arguments_); }
  Formatter(const Formatter&) = delete;
  Formatter& operator=(const Formatter&) = delete;

  void Run() {
    while (*next_ != '\0') {
      if (*next_ != '%') {
        out_ += *next_++;
      } else {
        ++next_;
        Directive();
      }
    }
  }

 private:
  int Number() {
    if (*next_ == '*') {
      ++next_;
      return va_arg(arguments_, int);
    }
    int value = 0;
    while (*next_ >= '0' && *next_ <= '9') value = value * 10 + (*next_++ - '0');
    return value;
  }

  void Directive() {
    Spec spec;
    for (;; ++next_) {
      if (*next_ == '-') {
        spec.left = true;
      } else if (*next_ == '0') {
        spec.zeros = true;
      } else {
        break;
      }
    }
    spec.width = Number();
    if (*next_ == '.') {
      ++next_;
      spec.precision = Number();
    }
    for (; *next_ == 'l' || *next_ == 'z'; ++next_) ++spec.long_count;
    AppendPadded(Convert(*next_++, spec), spec, &out_);
  }

  uint64_t Unsigned(const Spec& spec) {
    if (spec.long_count == 0) return va_arg(arguments_, unsigned);
    if (spec.long_count == 1) return va_arg(arguments_, unsigned long);
    return va_arg(arguments_, unsigned long long);
  }
  int64_t Signed(const Spec& spec) {
    if (spec.long_count == 0) return va_arg(arguments_, int);
    if (spec.long_count == 1) return va_arg(arguments_, long);
    return va_arg(arguments_, long long);
  }

  std::string Convert(char kind, const Spec& spec) {
    switch (kind) {
      case 'd':
      case 'i': {
        const int64_t value = Signed(spec);
        const uint64_t magnitude =
            value < 0 ? 0 - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
        return (value < 0 ? "-" : "") + Decimal(magnitude);
      }
      case 'u':
        return Decimal(Unsigned(spec));
      case 'x':
        return Digits(Unsigned(spec), 16, "0123456789abcdef");
      case 'X':
        return Digits(Unsigned(spec), 16, "0123456789ABCDEF");
      case 'g':
      case 'f':
        return Real(va_arg(arguments_, double), kind, spec.precision);
      case 'c':
        return std::string(1, static_cast<char>(va_arg(arguments_, int)));
      case 's': {
        const char* text = va_arg(arguments_, const char*);
        const size_t length = spec.precision < 0
                                  ? std::strlen(text)
                                  : strnlen(text, static_cast<size_t>(spec.precision));
        return std::string(text, length);
      }
      case '%':
        return "%";
      default:
        CHECK(!"a directive that Format does not know");
        return {};
    }
  }

  const char* next_;
  va_list arguments_;
  std::string& out_;
};

}  // namespace

std::string FormatV(const char* format, va_list arguments) {
  std::string out;
  Formatter(format, arguments, &out).Run();
  return out;
}

std::string Format(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  std::string out = FormatV(format, arguments);
  va_end(arguments);
  return out;
}

void AppendFormat(std::string& out, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  out += FormatV(format, arguments);
  va_end(arguments);
}

GroupedNumber::GroupedNumber(uint64_t value) {
  const std::string digits = Decimal(value);
  char* out = text_;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i != 0 && (digits.size() - i) % 3 == 0) *out++ = ',';
    *out++ = digits[i];
  }
  *out = '\0';
}

std::string Printable(std::string_view text, size_t limit) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (out.size() >= limit) {
      out += "...";
      break;
    }
    const auto byte = static_cast<unsigned char>(text[i]);
    out += (byte >= 0x20 && byte < 0x7f) ? text[i] : '?';
  }
  return out;
}

}  // namespace nonstop
