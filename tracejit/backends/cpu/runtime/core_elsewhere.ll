; Cores of which nothing is known.

define internal void @os_pause() alwaysinline {
  fence seq_cst
  ret void
}

define internal i32 @os_float_mode() alwaysinline {
  ret i32 0
}

define internal void @os_set_float_mode(i32 %mode) alwaysinline {
  ret void
}
