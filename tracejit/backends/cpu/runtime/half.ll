; Conversions of f16 for processors that have none: names and rounding are those of a compiler's library.

define half @__truncsfhf2(float %x) {
  %bits = bitcast float %x to i32
  %size = and i32 %bits, 2147483647
  %high = lshr i32 %bits, 16
  %sign = and i32 %high, 32768

  ; From 2^-14 on: the exponent's bias is 15, not 127, and 13 bits are rounded off.
  %cut = lshr i32 %size, 13
  %odd = and i32 %cut, 1
  %up = add i32 %odd, 4095
  %rounded = add i32 %size, %up
  %biased = sub i32 %rounded, 939524096
  %normal = lshr i32 %biased, 13

  ; Below: next to 1/2 an f32 has steps of 2^-24, those of a subnormal f16, so that the addition rounds.
  %small = bitcast i32 %size to float
  %added = fadd float %small, 0.5
  %steps = bitcast float %added to i32
  %subnormal = sub i32 %steps, 1056964608
  %tiny = icmp ult i32 %size, 947912704
  %finite = select i1 %tiny, i32 %subnormal, i32 %normal

  ; 65520, half way between the largest f16 and 2^16, rounds to infinity; a NaN keeps the head of its payload.
  %large = icmp uge i32 %size, 1199566848
  %ranged = select i1 %large, i32 31744, i32 %finite
  %payload = and i32 %cut, 1023
  %quiet = or i32 %payload, 32256
  %nan = icmp ugt i32 %size, 2139095040
  %any = select i1 %nan, i32 %quiet, i32 %ranged
  %word = or i32 %any, %sign
  %short = trunc i32 %word to i16
  %result = bitcast i16 %short to half
  ret half %result
}

define half @__truncdfhf2(double %x) {
  ; Through an f32 that is rounded to odd: where it was rounded, it moves to its odd neighbour toward `x`.
  %near = fptrunc double %x to float
  %back = fpext float %near to double
  %bits = bitcast float %near to i32
  %last = and i32 %bits, 1
  %odd = icmp ne i32 %last, 0
  %exact = fcmp ueq double %back, %x
  %kept = or i1 %odd, %exact
  %above = fcmp ogt double %x, %back
  %positive = fcmp ogt double %x, 0.0
  %inward = xor i1 %above, %positive
  %step = select i1 %inward, i32 -1, i32 1
  %moved = add i32 %bits, %step
  %chosen = select i1 %kept, i32 %bits, i32 %moved
  %single = bitcast i32 %chosen to float
  %result = call half @__truncsfhf2(float %single)
  ret half %result
}

define float @__extendhfsf2(half %x) {
  %short = bitcast half %x to i16
  %word = zext i16 %short to i32
  %size = and i32 %word, 32767
  %sign = and i32 %word, 32768
  %signed = shl i32 %sign, 16
  %moved = shl i32 %size, 13
  %small = bitcast i32 %moved to float
  %scaled = fmul float %small, 0x46F0000000000000      ; 2^112, the difference of the biases: exact, also of a subnormal
  %finite = bitcast float %scaled to i32
  %special = or i32 %moved, 2139095040
  %above = icmp uge i32 %size, 31744
  %any = select i1 %above, i32 %special, i32 %finite
  %bits = or i32 %any, %signed
  %result = bitcast i32 %bits to float
  ret float %result
}
