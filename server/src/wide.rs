//! Loops over many bytes, compiled for the widest registers that the processor turns out to have.
//!
//! A function within `wide!` is compiled twice: for every processor of the platform, and for those
//! with AVX2, which do several times as much in a step. Which one runs is asked of the processor.
//! One that the compiler makes too little of may say in its own words what it does with `avx2`.

/// Makes the functions within choose what they run as.
macro_rules! wide {
    ($(
        $(#[$about:meta])*
        fn $name:ident($($arg:ident: $kind:ty),* $(,)?) $(-> $result:ty)? $body:block
        $(avx2 $own:block)?
    )*) => {$(
        $(#[$about])*
        fn $name($($arg: $kind),*) $(-> $result)? {
            #[inline(always)]
            fn plain($($arg: $kind),*) $(-> $result)? $body

            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx2,popcnt")]
                #[allow(unreachable_code)]
                fn with_avx2($($arg: $kind),*) $(-> $result)? {
                    $(return $own;)?
                    plain($($arg),*)
                }
                if std::is_x86_feature_detected!("avx2") && std::is_x86_feature_detected!("popcnt") {
                    // SAFETY: the processor has what the function is compiled for.
                    #[allow(unsafe_code)]
                    return unsafe { with_avx2($($arg),*) };
                }
            }
            plain($($arg),*)
        }
    )*};
}

pub(crate) use wide;
