//! Which vector instructions there are.

/// Instructions that the kernels are written for. All give the same bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Instructions {
    /// Those that every processor has.
    Portable,
    /// Of x86.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// Of x86, with permutations of bytes (VBMI); what is not bytes is done as with AVX2.
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Instructions {
    /// The best of this machine.
    pub(super) fn detect() -> Instructions {
        *Instructions::available().last().expect("there is always the portable kernel")
    }

    /// All of this machine, the best last.
    pub(super) fn available() -> Vec<Instructions> {
        #[cfg_attr(not(target_arch = "x86_64"), allow(unused_mut))]
        let mut all = vec![Instructions::Portable];
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") {
            all.push(Instructions::Avx2);
            if is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512vl")
                && is_x86_feature_detected!("avx512vbmi")
            {
                all.push(Instructions::Avx512);
            }
        }
        all
    }
}
