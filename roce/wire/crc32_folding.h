// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
//
// CRC-32 by multiplication without carry. crc32.cc includes this once for each kind of vector, as
// every function has to name the instructions that it may use.
//
// Lanes: a vector of bytes is multiplied with what stands for a distance, modulo P, and added to
// the vector that is so far behind it (Gopal et al., "Fast CRC computation for generic polynomials
// using PCLMULQDQ", 2009). Several lanes do so side by side. In the end each vector is multiplied
// with what stands for its distance from the end.
//
// Processors begin one such multiplication a cycle, or one in two, however wide it is, so that narrow
// vectors cannot be faster than that. Most of a long input is therefore spared them: P divides
// polynomials with very few terms, such as x^852 + x^317 + x^108 + x^56 + 1, and with the eighth
// power of one, whose terms are whole bytes apart, a vector is moved by additions alone, to four
// places behind it. (Kadatch and Jenkins, and Russell's "Chorba", 2024, use such polynomials.)
//
// There is no guard against a second inclusion, for a reason.

#if !defined(ROCKHOPPER_FOLDING)
#error "crc32.cc says for what"
#endif

#define ROCKHOPPER_INLINE [[gnu::target(ROCKHOPPER_FOLDING_TARGET), gnu::always_inline]] inline
#define ROCKHOPPER_LAMBDA __attribute__((target(ROCKHOPPER_FOLDING_TARGET), always_inline))

namespace rockhopper::wire {
namespace {
namespace ROCKHOPPER_FOLDING {

constexpr std::size_t kBlock = 16;

template <int kBits>
struct Vector;

template <>
struct Vector<128> {
  using Type = __m128i;
  ROCKHOPPER_INLINE static Type load(const void* from) {
    return _mm_loadu_si128(static_cast<const Type*>(from));
  }
  ROCKHOPPER_INLINE static void store(void* to, Type value) {
    _mm_storeu_si128(static_cast<Type*>(to), value);
  }
  /// The compiler cannot read the value from memory again.
  ROCKHOPPER_INLINE static Type once(Type value) {
    asm("" : "+x"(value));
    return value;
  }
  ROCKHOPPER_INLINE static Type widen(__m128i block) { return block; }
  ROCKHOPPER_INLINE static __m128i sum(Type value) { return value; }
  ROCKHOPPER_INLINE static Type all(const Crc32Factors& factors) { return load(&factors); }
  ROCKHOPPER_INLINE static Type moved(Type value, Type by) {
    return _mm_clmulepi64_si128(value, by, 0x00) ^ _mm_clmulepi64_si128(value, by, 0x11);
  }
};

#if ROCKHOPPER_FOLDING_LANE == 256 || ROCKHOPPER_FOLDING_SPARSE == 256
template <>
struct Vector<256> {
  using Type = __m256i;
  ROCKHOPPER_INLINE static Type load(const void* from) {
    return _mm256_loadu_si256(static_cast<const Type*>(from));
  }
  ROCKHOPPER_INLINE static void store(void* to, Type value) {
    _mm256_storeu_si256(static_cast<Type*>(to), value);
  }
  ROCKHOPPER_INLINE static Type once(Type value) {
    asm("" : "+x"(value));
    return value;
  }
  ROCKHOPPER_INLINE static Type widen(__m128i block) { return _mm256_zextsi128_si256(block); }
  ROCKHOPPER_INLINE static __m128i sum(Type value) {
    return _mm256_castsi256_si128(value) ^ _mm256_extracti128_si256(value, 1);
  }
#if ROCKHOPPER_FOLDING_LANE == 256
  ROCKHOPPER_INLINE static Type all(const Crc32Factors& factors) {
    return _mm256_broadcastsi128_si256(Vector<128>::load(&factors));
  }
  ROCKHOPPER_INLINE static Type moved(Type value, Type by) {
    return _mm256_clmulepi64_epi128(value, by, 0x00) ^ _mm256_clmulepi64_epi128(value, by, 0x11);
  }
#endif
};
#endif

#if ROCKHOPPER_FOLDING_LANE == 512
template <>
struct Vector<512> {
  using Type = __m512i;
  ROCKHOPPER_INLINE static Type load(const void* from) { return _mm512_loadu_si512(from); }
  ROCKHOPPER_INLINE static void store(void* to, Type value) { _mm512_storeu_si512(to, value); }
  ROCKHOPPER_INLINE static Type once(Type value) {
    asm("" : "+v"(value));
    return value;
  }
  ROCKHOPPER_INLINE static Type widen(__m128i block) { return _mm512_zextsi128_si512(block); }
  ROCKHOPPER_INLINE static __m128i sum(Type value) {
    // The functions without a mask make GCC 12 warn of what they leave undefined.
    const __m256i half = _mm512_maskz_extracti64x4_epi64(0xff, value, 0) ^
                         _mm512_maskz_extracti64x4_epi64(0xff, value, 1);
    return _mm256_castsi256_si128(half) ^ _mm256_extracti128_si256(half, 1);
  }
  ROCKHOPPER_INLINE static Type all(const Crc32Factors& factors) {
    return _mm512_maskz_broadcast_i32x4(0xffff, Vector<128>::load(&factors));
  }
  ROCKHOPPER_INLINE static Type moved(Type value, Type by) {
    return _mm512_clmulepi64_epi128(value, by, 0x00) ^ _mm512_clmulepi64_epi128(value, by, 0x11);
  }
};
#endif

using Block = Vector<128>;
using Lane = Vector<ROCKHOPPER_FOLDING_LANE>;
constexpr std::size_t kLane = ROCKHOPPER_FOLDING_LANE / 8;
constexpr std::size_t kLanes = ROCKHOPPER_FOLDING_LANES;
constexpr std::size_t kStep = kLane * kLanes;
constexpr Crc32Factors kByStep = crc32_factors(8 * kStep);
constexpr Crc32Factors kByBlock = crc32_factors(8 * kBlock);

/// For the distance of a block from the end, which the most distant begins; with the 32 bits of the
/// CRC behind it.
constexpr std::size_t kDistances = 2 * kStep / kBlock;
constexpr auto kToEnd = [] {
  std::array<Crc32Factors, kDistances> factors{};
  for (std::size_t behind = 0; behind < kDistances; ++behind) {
    factors[kDistances - 1 - behind] =
        crc32_factors(static_cast<unsigned>(8 * kBlock * behind) + 32);
  }
  return factors;
}();

/// The products of all blocks of a vector behind which so many bytes follow.
template <typename V>
ROCKHOPPER_INLINE typename V::Type moved_to_end(typename V::Type value, std::size_t behind) {
  const std::size_t last = kDistances - 1 - behind / kBlock;
  return V::moved(value, V::load(&kToEnd[last + 1 - sizeof value / kBlock]));
}

/// What is left of 96 bits, as products with a factor have.
ROCKHOPPER_INLINE std::uint32_t remainder_of(__m128i sum) {
  const __m128i low_word = _mm_set_epi32(0, 0, 0, -1);
  const __m128i to_32 = Block::load(&kCrc32To32Bits);
  __m128i rest = _mm_clmulepi64_si128(sum, Block::load(&kCrc32To64Bits), 0x00) ^ sum;
  rest = _mm_srli_si128(rest, 8);
  // Barrett's reduction: the quotient by P is known from the upper half alone.
  __m128i quotient = _mm_clmulepi64_si128(rest & low_word, to_32, 0x00);
  quotient = _mm_clmulepi64_si128(quotient & low_word, to_32, 0x10);
  return static_cast<std::uint32_t>(_mm_extract_epi32(rest ^ quotient, 1));
}

/// The bytes whose CRC is computed: whole blocks.
template <bool kCopies>
struct Input {
  std::uint8_t* to;
  const std::uint8_t* from;
  std::size_t size;
  __m128i before;  ///< is added to the first block, for all that was before

  /// Reads a vector, and copies it.
  template <typename V>
  ROCKHOPPER_INLINE typename V::Type take(std::size_t at) const {
    if constexpr (kCopies) {
      const auto value = V::once(V::load(from + at));
      V::store(to + at, value);
      return value;
    } else {
      return V::load(from + at);
    }
  }
};

/// A multiple of P with few terms: a vector at some place is the same as the sum of it at these
/// places behind it. Vectors of a step lie between a place and the first one behind it, which has
/// to have been written long before it is read: else the processor waits for its own writes.
constexpr std::array<std::size_t, 4> kDistant{535, 744, 796, 852};
static_assert(crc32_power_of_x(8 * 852) == (crc32_power_of_x(8 * (852 - kDistant[0])) ^
                                            crc32_power_of_x(8 * (852 - kDistant[1])) ^
                                            crc32_power_of_x(8 * (852 - kDistant[2])) ^
                                            crc32_power_of_x(8 * (852 - kDistant[3]))));

struct Lanes {
  Lane::Type lane[kLanes];
  ROCKHOPPER_INLINE Lane::Type& operator[](std::size_t i) { return lane[i]; }
  ROCKHOPPER_INLINE const Lane::Type& operator[](std::size_t i) const { return lane[i]; }
};

/// Nothing is added to the input.
struct Plain {
  template <typename V>
  ROCKHOPPER_INLINE typename V::Type operator()(typename V::Type value, std::size_t /*at*/) const {
    return value;
  }
};

/// What was moved from `moved` on is added, from the distances that are not gone by.
template <std::size_t kGone>
struct WithMoved {
  const std::uint8_t* moved;
  template <typename V>
  ROCKHOPPER_INLINE typename V::Type operator()(typename V::Type value, std::size_t at) const {
    if constexpr (kGone <= 0) value ^= V::load(moved + at - kDistant[0]);
    if constexpr (kGone <= 1) value ^= V::load(moved + at - kDistant[1]);
    if constexpr (kGone <= 2) value ^= V::load(moved + at - kDistant[2]);
    return value ^ V::load(moved + at - kDistant[3]);
  }
};

/// Begins with one step of all lanes.
template <bool kCopies, typename Add>
ROCKHOPPER_INLINE void begin(const Input<kCopies>& input, std::size_t at, Lanes& lanes, Add add) {
#pragma GCC unroll 8
  for (std::size_t i = 0; i < kLanes; ++i) {
    const std::size_t here = at + i * kLane;
    lanes[i] = add.template operator()<Lane>(input.template take<Lane>(here), here);
  }
}

/// Folds as many steps as there are up to `end`, and returns where it stopped.
template <bool kCopies, typename Add>
ROCKHOPPER_INLINE std::size_t fold(const Input<kCopies>& input, std::size_t at, std::size_t end,
                                   Lanes& lanes, Add add) {
  const auto by_step = Lane::all(kByStep);
  for (; at + kStep <= end; at += kStep) {
#pragma GCC unroll 8
    for (std::size_t i = 0; i < kLanes; ++i) {
      const std::size_t here = at + i * kLane;
      lanes[i] = Lane::moved(lanes[i], by_step) ^
                 add.template operator()<Lane>(input.template take<Lane>(here), here);
    }
  }
  return at;
}

/// The CRC of what is in the lanes, if there are any, and of the input from `at` on, which is less
/// than a step. `before` is added to its first block.
template <bool kCopies>
ROCKHOPPER_INLINE std::uint32_t finish(const Input<kCopies>& input, std::size_t at,
                                       const Lanes* lanes, __m128i before) {
  auto wide_sum = Lane::widen(_mm_setzero_si128());
  if (lanes != nullptr) {
#pragma GCC unroll 8
    for (std::size_t i = 0; i < kLanes; ++i) {
      wide_sum ^= moved_to_end<Lane>((*lanes)[i], input.size - at + (kLanes - 1 - i) * kLane);
    }
  }
  for (; input.size - at >= kLane; at += kLane) {
    const auto value = input.template take<Lane>(at) ^ Lane::widen(before);
    before = _mm_setzero_si128();
    wide_sum ^= moved_to_end<Lane>(value, input.size - at - kLane);
  }
  __m128i sum = Lane::sum(wide_sum);
  for (; at < input.size; at += kBlock) {
    const __m128i value = input.template take<Block>(at) ^ before;
    before = _mm_setzero_si128();
    sum ^= moved_to_end<Block>(value, input.size - at - kBlock);
  }
  return remainder_of(sum);
}

/// All by multiplication.
template <bool kCopies>
ROCKHOPPER_INLINE std::uint32_t dense(const Input<kCopies>& input) {
  if (input.size < kStep) return finish(input, 0, nullptr, input.before);
  Lanes lanes;
  begin(input, 0, lanes, Plain{});
  lanes[0] ^= Lane::widen(input.before);
  const std::size_t at = fold(input, kStep, input.size, lanes, Plain{});
  return finish(input, at, &lanes, _mm_setzero_si128());
}

#if ROCKHOPPER_FOLDING_SPARSE
using Sparse = Vector<ROCKHOPPER_FOLDING_SPARSE>;
constexpr std::size_t kSparse = ROCKHOPPER_FOLDING_SPARSE / 8;
constexpr std::size_t kLongest = (kDistant[3] + kStep - 1) / kStep * kStep;
/// From here on it is worth it: there have to be bytes to move, and bytes to move them to.
constexpr std::size_t kSparseMin = 2 * kLongest + kStep;
constexpr std::size_t kSparseMax = 5120;

/// Moves the input up to `end`, and writes at `moved` what it was together with what had been moved
/// there. Zeros are around it.
template <bool kCopies>
ROCKHOPPER_INLINE void move_up_to(const Input<kCopies>& input, std::size_t end,
                                  std::uint8_t* moved) {
  const auto zero = Sparse::widen(_mm_setzero_si128());
  Sparse::store(moved - kSparse, zero);
  Sparse::store(moved, input.template take<Sparse>(0) ^ Sparse::widen(input.before));
  std::size_t at = kSparse;
  const auto copy_to = [&](std::size_t next, auto add) ROCKHOPPER_LAMBDA {
    for (; at + kSparse <= next; at += kSparse) {
      Sparse::store(moved + at,
                    add.template operator()<Sparse>(input.template take<Sparse>(at), at));
    }
  };
  copy_to(kDistant[0], Plain{});
  for (; at + kSparse <= kDistant[1]; at += kSparse) {
    Sparse::store(moved + at,
                  input.template take<Sparse>(at) ^ Sparse::load(moved + at - kDistant[0]));
  }
  for (; at + kSparse <= kDistant[3]; at += kSparse) {
    auto value = input.template take<Sparse>(at);
    value ^= Sparse::load(moved + at - kDistant[0]) ^ Sparse::load(moved + at - kDistant[1]);
    if (at + kSparse > kDistant[2]) value ^= Sparse::load(moved + at - kDistant[2]);
    Sparse::store(moved + at, value);
  }
  copy_to(end, WithMoved<0>{moved});
#pragma GCC unroll 8
  for (std::size_t i = 0; i < kStep; i += kSparse) {
    Sparse::store(moved + end + i, zero);
  }
}

/// Most of it by additions, and the rest by multiplication.
template <bool kCopies>
ROCKHOPPER_INLINE std::uint32_t sparse(const Input<kCopies>& input) {
  alignas(64) std::array<std::uint8_t, kSparse + kSparseMax> room;
  std::uint8_t* moved = room.data() + kSparse;
  const std::size_t end = (input.size - kLongest) / kStep * kStep;
  move_up_to(input, end, moved);
  const auto up_to = [end](std::size_t distance) {
    return end + (distance + kStep - 1) / kStep * kStep;
  };
  Lanes lanes;
  begin(input, end, lanes, WithMoved<0>{moved});
  std::size_t at = end + kStep;
  at = fold(input, at, up_to(kDistant[0]), lanes, WithMoved<0>{moved});
  at = fold(input, at, up_to(kDistant[1]), lanes, WithMoved<1>{moved});
  at = fold(input, at, up_to(kDistant[2]), lanes, WithMoved<2>{moved});
  at = fold(input, at, up_to(kDistant[3]), lanes, WithMoved<3>{moved});
  at = fold(input, at, input.size, lanes, Plain{});
  return finish(input, at, &lanes, _mm_setzero_si128());
}
#endif

template <bool kCopies>
ROCKHOPPER_INLINE std::uint32_t compute(std::uint32_t crc, std::uint8_t* to,
                                        const std::uint8_t* from, std::size_t length) {
#if ROCKHOPPER_FOLDING_SPARSE
  constexpr std::size_t kPiece = 4096;
  for (; length > kSparseMax; length -= kPiece) {
    crc = ~sparse(Input<kCopies>{to, from, kPiece, _mm_cvtsi32_si128(static_cast<int>(~crc))});
    if constexpr (kCopies) to += kPiece;
    from += kPiece;
  }
#endif
  if (length < kBlock) return by_bytes(crc, kCopies ? to : nullptr, from, length);
  crc = ~crc;
  __m128i before = _mm_cvtsi32_si128(static_cast<int>(crc));
  if (const std::size_t odd = length % kBlock; odd != 0) {
    const Input<kCopies> first{to, from, kBlock, before};
    const __m128i head = first.template take<Block>(0) ^ before;
    before = Block::moved(_mm_shuffle_epi8(head, Block::load(&kCrc32Shift[odd])),
                          Block::all(kByBlock));
    // The CRC goes on behind them.
    if (odd < sizeof crc) before ^= _mm_cvtsi32_si128(static_cast<int>(crc >> 8 * odd));
    if constexpr (kCopies) to += odd;
    from += odd;
    length -= odd;
  }
  const Input<kCopies> input{to, from, length, before};
#if ROCKHOPPER_FOLDING_SPARSE
  if (length >= kSparseMin) return ~sparse(input);
#endif
  return ~dense(input);
}

[[gnu::target(ROCKHOPPER_FOLDING_TARGET)]] std::uint32_t add(std::uint32_t crc,
                                                             const std::uint8_t* bytes,
                                                             std::size_t length) {
  return compute<false>(crc, nullptr, bytes, length);
}

[[gnu::target(ROCKHOPPER_FOLDING_TARGET)]] std::uint32_t copy(std::uint32_t crc, std::uint8_t* to,
                                                              const std::uint8_t* from,
                                                              std::size_t length) {
  return compute<true>(crc, to, from, length);
}

}  // namespace ROCKHOPPER_FOLDING
}  // namespace
}  // namespace rockhopper::wire

#undef ROCKHOPPER_INLINE
#undef ROCKHOPPER_LAMBDA
#undef ROCKHOPPER_FOLDING
#undef ROCKHOPPER_FOLDING_TARGET
#undef ROCKHOPPER_FOLDING_LANE
#undef ROCKHOPPER_FOLDING_LANES
#undef ROCKHOPPER_FOLDING_SPARSE
