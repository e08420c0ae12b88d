// Monotonic time. The engine asks for it only to keep to a budget and to measure.
#pragma once

namespace nonstop {

class Clock {
 public:
  virtual ~Clock() = default;
  virtual double NowUs() const = 0;
};

}  // namespace nonstop
